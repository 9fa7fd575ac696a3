"""What options and configuration become."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_stub import make_report, make_verdict

from graphcheck.options import CheckOptions, ValidateOptions


def test_defaults(command: Callable[..., Any], api: Any) -> None:
    api.answer = make_report()
    command("model.py")
    assert api.asked == [CheckOptions("model.py")]
    api.answer = make_verdict("match")
    command("validate", "model.py")
    assert api.asked[1:] == [ValidateOptions("model.py")]


def test_every_option(command: Callable[..., Any], api: Any, folder: Path) -> None:
    (folder / "mine.so").write_text("")
    api.answer = make_verdict("match")
    shared = [
        *("--input", "float32[2,3]", "--input", "int64[2]<10", "--loss", "mse"),
        *("--num-classes", "7", "--dynamic-batch", "--strict", "--opset", "1.5.1"),
        *("--kernel-library", "mine.so", "--timeout", "9", "--memory-limit", "100"),
    ]
    command("validate", "model.py", *shared, *["--steps", "3", "--lr", "0.5", "--optimizer", "x"])
    expected = {
        "target": "model.py",
        "inputs": ("float32[2,3]", "int64[2]<10"),
        "loss": "mse",
        "num_classes": 7,
        "dynamic_batch": True,
        "strict": True,
        "opset": "1.5.1",
        "kernel_libraries": (str(folder / "mine.so"),),
        "timeout": 9.0,
        "memory_limit": 100,
    }
    assert api.asked == [ValidateOptions(**expected, steps=3, learning_rate=0.5, optimizer="x")]
    api.answer = make_report()
    command("model.py", *shared, "--select", "gc1,GC3", "--select", "GC4", "--ignore", "GC301")
    assert api.asked[1:] == [
        CheckOptions(**expected, select=("GC1", "GC3", "GC4"), ignore=("GC301",))
    ]


_CONFIG = """
[tool.graphcheck]
select = ["GC1"]
ignore = ["GC6"]
fail-on = "error"
output-format = "json"
timeout = 5
input = ["float32[1]"]
dynamic-batch = true
steps = 4
per-module-ignores = {"pool*" = ["GC3"]}
"""


def test_configuration_fills_in(command: Callable[..., Any], api: Any, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(_CONFIG)
    api.answer = make_report("warning")
    ended = command("model.py")
    assert ended.code == 0
    assert ended.out.startswith("{")
    assert api.asked == [
        CheckOptions(
            "model.py",
            inputs=("float32[1]",),
            dynamic_batch=True,
            timeout=5.0,
            select=("GC1",),
            ignore=("GC6",),
            per_module_ignores=(("pool*", ("GC3",)),),
        )
    ]
    api.answer = make_verdict("match")
    command("validate", "model.py")
    assert api.asked[1].steps == 4


def test_options_outrank_configuration(command: Callable[..., Any], api: Any, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(_CONFIG)
    api.answer = make_report("warning")
    ended = command(
        *("model.py", "--fail-on", "warning", "--output-format", "text", "--timeout", "7"),
        "--static-batch",
        *["--select", "GC2", "--ignore", "GC5", "--input", "int64[2]"],
    )
    assert ended.code == 1
    assert ended.out.startswith("Warning\n")
    asked = api.asked[0]
    assert (asked.timeout, asked.dynamic_batch, asked.inputs) == (7.0, False, ("int64[2]",))
    # Ignores add up; a selection replaces.
    assert (asked.select, asked.ignore) == (("GC2",), ("GC5", "GC6"))


def test_configuration_of_the_target_not_of_the_current_folder(
    command: Callable[..., Any], api: Any, folder: Path
) -> None:
    (folder / "pyproject.toml").write_text("[tool.graphcheck]\ntimeout = 1\n")
    project = folder / "project"
    project.mkdir()
    (project / "net.py").write_text("")
    (project / "pyproject.toml").write_text("[tool.graphcheck]\ntimeout = 2\n")
    api.answer = make_report()
    command("project/net.py")
    command("project/net.py:Net")
    command("model.py")
    command("torchvision:resnet18")
    command("project/net.py", "--config", "pyproject.toml")
    assert [asked.timeout for asked in api.asked] == [2.0, 2.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fial-on = 'error'", "unknown key `fial-on` in [tool.graphcheck]."),
        ("fail-on = 'often'", "`fail-on`: there is no severity `often`."),
    ],
)
def test_wrong_configuration(
    command: Callable[..., Any], api: Any, folder: Path, line: str, message: str
) -> None:
    path = folder / "pyproject.toml"
    path.write_text(f"[tool.graphcheck]\n{line}\n")
    ended = command("model.py")
    assert ended.code == 2
    assert ended.err.splitlines()[0] == f"graphcheck: error: {path}: {message}"
    assert api.asked == []


def test_wrong_output_format_in_configuration(command: Callable[..., Any], folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.graphcheck]\noutput-format = 'xml'\n")
    assert command("model.py").code == 2


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (
            ("check", "model.py", "-o", "model.py"),
            "--output model.py would be written over model.py, which is read.",
            "Name another file with --output.",
        ),
        (
            ("validate", "model.py:Net", "-o", "./model.py"),
            "--output model.py would be written over model.py, which is read.",
            "Name another file with --output.",
        ),
        (
            ("export", "model.py", "-o", "model.py"),
            "model.py would be written over model.py, which is read.",
            "Name another file with -o.",
        ),
        (
            ("check", "model.py", "--stamp", "stamp.json=tree", "-o", "stamp.json"),
            "--output stamp.json would be written over stamp.json, which is read.",
            "Name another file with --output.",
        ),
        (
            ("check", "model.py", "--target", ""),
            "--target is empty.",
            "Name a release, such as executorch==1.5.1.",
        ),
        (
            ("check", "model.py", "--ignore", "GC9"),
            "--ignore: no rule has a code that begins with `GC9`.",
            "`graphcheck rule` lists them.",
        ),
        (
            ("export", "model.py", "-o", "x.pte", "--no-validate", "--on", "host"),
            "--on names where to prove the program, and --no-validate leaves the proof out.",
            "Leave out one of the two.",
        ),
    ],
)
def test_what_cannot_be_meant(
    command: Callable[..., Any], folder: Path, arguments: tuple[str, ...], said: str, hint: str
) -> None:
    """A file that is read is never written over; nothing that was asked for is dropped unsaid."""
    (folder / "stamp.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ended = command(*arguments)
    assert ended.code == 2
    assert ended.err == f"graphcheck: error: {said}\nnext: {hint}\n"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
