"""The exact words of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_stub import make_report, make_verdict

from graphcheck.cli.interface import all_verbs
from graphcheck.cli.main import with_default_verb
from graphcheck.errors import DeviceError, ModelError, UsageError
from graphcheck.process import WorkerFailure

_VERBS = [verb.name for verb in all_verbs()]
_FORMS = (
    f"Verbs are {', '.join(_VERBS)}; a target is model.py, model.py:Net, pkg.mod:factory,"
    " torchvision:resnet18, model.pte, model.pt2."
)
_BUG = (
    "This is a bug in graphcheck. Set GRAPHCHECK_TRACEBACK=1 and run the command again for the"
    " traceback to report."
)
_CODES = "Codes look like GC301, or a prefix such as GC3; `graphcheck rule` lists them."


@pytest.mark.parametrize(
    ("arguments", "message", "following"),
    [
        (
            ("valdate", "model.py"),
            "`valdate` is neither a verb nor a target.",
            "Did you mean `validate`? " + _FORMS,
        ),
        (("word",), "`word` is neither a verb nor a target.", _FORMS),
        (("modle.py",), "There is no file modle.py.", "Did you mean model.py?"),
        (("modle.py:Net",), "There is no file modle.py.", "Did you mean model.py?"),
        (("modle.PTE",), "There is no file modle.PTE.", "Did you mean model.pte?"),
        (("modle.pt2",), "There is no file modle.pt2.", "Did you mean model.pte?"),
        (("validate", "./modle"), "There is no file modle.", "Did you mean model.py?"),
        (
            ("model.ptx",),
            "'model.ptx' is no target that graphcheck knows.",
            "Did you mean model.pte?",
        ),
        ((".",), ". is a folder, not a model file.", "Name the file in it."),
        (("no/model.py",), "There is no folder no for model.py.", "Check the path."),
        (
            ("model.py", "--fail-on", "often"),
            "--fail-on: there is no severity `often`.",
            "Choose one of error, warning, note, never.",
        ),
        (
            ("model.py", "--output-format", "xml"),
            "There is no output format `xml`.",
            "Choose one of github, json, text.",
        ),
        (("model.py", "--select", "GC1,E5"), "--select: `E5` is not a code.", _CODES),
        (
            ("model.py", "--ignore", "GC001"),
            "--ignore: `GC001` cannot be ignored.",
            "GC0 says that the model could not be checked.",
        ),
        (
            ("model.py", "--timeout", "-3"),
            "--timeout must be greater than 0, not -3.",
            "For instance --timeout 600 (seconds).",
        ),
        (
            ("model.py", "--timeout", "inf"),
            "--timeout must be at most 2000000, not inf.",
            "For instance --timeout 600 (seconds).",
        ),
        (
            ("validate", "--reproduce", ".", "--timeout", "-3"),
            "--timeout must be greater than 0, not -3.",
            "For instance --timeout 600 (seconds).",
        ),
        *(
            (
                ("validate", "model.py", option, value),
                f"{option} {value}: it is a finite number.",
                "Leave it out to use the default.",
            )
            for option, value in (
                ("--momentum", "nan"),
                ("--weight-decay", "inf"),
                ("--eps", "-inf"),
                ("--betas", "0.9,nan"),
            )
        ),
        *(
            (
                (verb, "model.py", option, "99999999999999999999"),
                f"Invalid value for '{option}': Input should be less than or equal to {most}",
                f"`graphcheck {verb} --help` lists arguments and options.",
            )
            for verb, option, most in (
                ("validate", "--steps", 2**31 - 1),
                ("validate", "--shadow-step", 2**31 - 1),
                ("check", "--num-classes", 2**31 - 1),
                ("check", "--memory-limit", 2**40),
                ("fix", "--groups", 2**31 - 1),
            )
        ),
        (
            ("model.py", "--config", "no.toml"),
            "--config no.toml: there is no such file.",
            "Check the path, or leave it out to use pyproject.toml.",
        ),
        (
            ("model.py", "--kernel-library", "/no/lib.so"),
            "--kernel-library /no/lib.so: there is no such file.",
            "Check the path; graphcheck patch build -o DIR makes such a library.",
        ),
        (
            ("model.py", "--output", "/proc/report.txt"),
            "--output /proc/report.txt cannot be written: No such file or directory.",
            "Name another file with --output.",
        ),
        (("rule", "GC999"), "There is no rule `GC999`.", None),
        (
            ("rule", "GC301", "--all"),
            "CODE and --all exclude each other.",
            "Leave one of them out.",
        ),
        (
            ("advisory", "show", "GCA-2025-0001"),
            "There is no advisory `GCA-2025-0001`.",
            "Did you mean GCA-2026-0001? `graphcheck advisory list` lists all of them.",
        ),
    ],
)
def test_wrong_usage(
    command: Callable[..., Any],
    folder: Path,
    arguments: tuple[str, ...],
    message: str,
    following: str | None,
) -> None:
    (folder / "model.pte").touch()
    ended = command(*arguments)
    assert ended.code == 2
    first, *rest = ended.err.splitlines()
    assert first == f"graphcheck: error: {message}"
    if following is not None:
        assert rest == ([f"next: {following}"] if following else [])


@pytest.mark.parametrize(
    ("arguments", "beginning", "verb"),
    [
        (("check", "--bogus"), "No such option", "check"),
        (("check",), "Missing argument 'TARGET'", "check"),
        (("opset", "shw"), "No such command 'shw'", "opset"),
        (("model.py", "other.py"), "Got unexpected extra argument", "check"),
    ],
)
def test_wrong_usage_in_the_words_of_typer(
    command: Callable[..., Any], arguments: tuple[str, ...], beginning: str, verb: str
) -> None:
    ended = command(*arguments)
    assert ended.code == 2
    first, following = ended.err.splitlines()
    assert first.startswith(f"graphcheck: error: {beginning}")
    assert following == f"next: `graphcheck {verb} --help` lists arguments and options."


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (UsageError("what.", "do this"), "graphcheck: error: what.\nnext: do this\n"),
        (
            ModelError("what.", "do this", "GC004"),
            "graphcheck: error: GC004: what.\nnext: do this\n",
        ),
        (DeviceError("no compiler"), "graphcheck: error: no compiler\n"),
        (KeyboardInterrupt(), "graphcheck: error: interrupted\n"),
        (
            ValueError("wrong\nmore"),
            f"graphcheck: error: internal error: ValueError: wrong\nnext: {_BUG}\n",
        ),
        (MemoryError(), f"graphcheck: error: internal error: MemoryError\nnext: {_BUG}\n"),
        (
            WorkerFailure("crash", "was killed by SIGSEGV", "tracing", ""),
            "graphcheck: error: a child process of graphcheck failed: was killed by SIGSEGV\n"
            f"next: {_BUG}\n",
        ),
    ],
)
def test_errors(command: Callable[..., Any], api: Any, error: BaseException, shown: str) -> None:
    api.answer = error
    assert command("model.py").err == shown


def test_traceback_on_request(
    command: Callable[..., Any], api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHCHECK_TRACEBACK", "1")
    api.answer = ValueError("wrong")
    ended = command("model.py")
    assert ended.code == 70
    assert ended.err.rstrip().endswith("ValueError: wrong")
    assert "Traceback (most recent call last)" in ended.err


def test_findings_and_summary(command: Callable[..., Any], api: Any) -> None:
    api.answer = make_report("error", "note")
    assert command("model.py").out == (
        "Error\n"
        "model.py:1:1: GC101 aten.x has no kernel\n"
        "    next: graphcheck rule GC101\n"
        "\n"
        "Note\n"
        "model.py:1:1: GC101 aten.x has no kernel\n"
        "\n"
        "Found 1 error and 1 note in 3 operator calls (0 of them backward)."
        " Next: graphcheck rule GC101\n"
    )
    assert command("model.py", "-q").out == (
        "model.py:1:1: GC101 aten.x has no kernel\n"
        "Found 1 error and 1 note in 3 operator calls (0 of them backward)."
        " Next: graphcheck rule GC101\n"
    )


def test_what_was_not_checked_is_said_even_when_quiet(
    command: Callable[..., Any], api: Any
) -> None:
    api.answer = make_report(not_checked=True)
    assert command("model.py", "-q").out == (
        "No problems in 3 operator calls (0 of them backward); 1 NOT CHECKED."
        " Next: graphcheck validate model.py\n"
    )


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("match", "model.py: match: for a reason.\n"),
        ("drift", "model.py: drift: for a reason. Next: graphcheck validate model.py --shadow\n"),
        (
            "diverged",
            "model.py: diverged: for a reason. Next: graphcheck validate model.py --shadow\n",
        ),
        ("not run", "model.py: not run: for a reason. Next: graphcheck check model.py\n"),
    ],
)
def test_verdict(command: Callable[..., Any], api: Any, word: str, line: str) -> None:
    api.answer = make_verdict(word)
    assert command("validate", "model.py", "-q").out == line


def test_next_command_repeats_what_describes_the_target(
    command: Callable[..., Any], api: Any
) -> None:
    again = ("--input", "float32[2,3]", "--num-classes", "7", "--static-batch")
    api.answer = make_report()
    for form in ("text", "github"):
        last = command("model.py", *again, "--output-format", form).out.splitlines()[-1]
        assert last.endswith(
            " Next: graphcheck validate model.py --input 'float32[2,3]' --num-classes 7"
            " --static-batch"
        )
    api.answer = make_verdict("diverged")
    assert command("validate", "model.py", "-q", "--loss", "mse", "--steps", "3").out == (
        "model.py: diverged: for a reason. Next: graphcheck validate model.py --loss mse --shadow\n"
    )


def test_progress_goes_to_stderr(command: Callable[..., Any], api: Any) -> None:
    api.answer = make_report()
    assert command("model.py").err == ""
    assert command("model.py", "-v").err == "graphcheck: tracing\n"
    assert json.loads(command("model.py", "-v", "--output-format", "json").out)["ops"] == 3


def test_output_file(command: Callable[..., Any], api: Any, folder: Path) -> None:
    api.answer = make_report("error")
    ended = command("model.py", "--output", "r.json", "--output-format", "json")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        "Found 1 error in 3 operator calls (0 of them backward). Report in r.json\n"
    )
    assert json.loads((folder / "r.json").read_text())["counts"]["error"] == 1
    assert command("model.py", "-q", "--output", "r.txt").err == ""
    assert (folder / "r.txt").read_text().startswith("model.py:1:1: GC101")
    assert sorted(p.name for p in folder.iterdir()) == ["model.py", "r.json", "r.txt"]
    (folder / "d").mkdir()
    assert command("model.py", "--output", "d").err == (
        "graphcheck: error: --output d is a folder.\nnext: Give the name of a file with --output.\n"
    )


def test_version(command: Callable[..., Any]) -> None:
    from graphcheck import __version__

    assert command("--version").out == f"graphcheck {__version__}\n"


def test_help_names_every_verb_and_format(command: Callable[..., Any]) -> None:
    from graphcheck.report.interface import all_formats

    text = command("--help").out
    assert {"check", "validate", "rule", "advisory", "opset", "doctor"} <= set(_VERBS)
    assert all(f"\n  {name} " in text for name in _VERBS)
    text = " ".join(command("check", "--help").out.split())
    assert f"One of {', '.join(entry.name for entry in all_formats())} (default: text)" in text


VERBS = ("check", "validate", "rule")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (("model.py",), ["check", "model.py"]),
        (("model.py", "-q"), ["check", "model.py", "-q"]),
        (("--input", "float32[1]", "model.py"), ["check", "--input", "float32[1]", "model.py"]),
        (("-v", "model.py"), ["check", "-v", "model.py"]),
        (("-v", "validate", "model.py"), ["validate", "-v", "model.py"]),
        (("validate", "model.py"), ["validate", "model.py"]),
        (("torchvision:resnet18",), ["check", "torchvision:resnet18"]),
        (("sub/model",), ["check", "sub/model"]),
        (("--help",), ["--help"]),
        (("-q",), ["check", "-q"]),
        ((), ["--help"]),
    ],
)
def test_default_verb(given: tuple[str, ...], read: list[str]) -> None:
    assert with_default_verb(given, VERBS) == read


def test_a_file_without_suffix_is_a_target(folder: Path) -> None:
    (folder / "net").write_text("")
    assert with_default_verb(["net"], VERBS) == ["check", "net"]
