"""`[tool.graphcheck]`: what is read, and the exact words for what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphcheck.config import Config, find_pyproject, load_config, target_folder
from graphcheck.errors import UsageError


def write(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_every_key(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [tool.graphcheck]
        select = ["GC1", "GC3"]
        ignore = ["GC6"]
        fail-on = "error"
        output-format = "json"
        timeout = 30
        memory-limit = 4096
        kernel-library = ["libmine.so"]
        opset = "1.5.1"
        input = ["float32[2,3]"]
        loss = "mse"
        num-classes = 10
        dynamic-batch = true
        steps = 5
        learning-rate = 0.1
        optimizer = "sgd"

        [tool.graphcheck.per-module-ignores]
        "pool*" = ["GC301"]
        """,
    )
    assert load_config(path) == Config(
        path=path,
        select=("GC1", "GC3"),
        ignore=("GC6",),
        per_module_ignores={"pool*": ("GC301",)},
        fail_on="error",
        output_format="json",
        timeout=30.0,
        memory_limit=4096,
        kernel_library=(str(tmp_path / "libmine.so"),),
        opset="1.5.1",
        input=("float32[2,3]",),
        loss="mse",
        num_classes=10,
        dynamic_batch=True,
        steps=5,
        learning_rate=0.1,
        optimizer="sgd",
    )


_CORRECT = "Correct the value, or take the line out."


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            "fail_on = 'error'",
            "unknown key `fail_on` in [tool.graphcheck].",
            "Did you mean `fail-on`?",
        ),
        (
            "timeout = 'long'",
            "the value of `timeout` does not fit: Expected `float`, got `str`.",
            _CORRECT,
        ),
        ("timeout = 0", "the value of `timeout` must be greater than 0, not 0.", _CORRECT),
        ("timeout = nan", "the value of `timeout` must be greater than 0, not nan.", _CORRECT),
        (
            "timeout = inf",
            "the value of `timeout` must be at most 2000000, not inf.",
            _CORRECT,
        ),
        (
            "steps = 3000000000",
            "the value of `steps` must be at most 2147483647, not 3000000000.",
            _CORRECT,
        ),
        (
            "memory-limit = 1099511627777",
            "the value of `memory-limit` must be at most 1099511627776, not 1099511627777.",
            _CORRECT,
        ),
        (
            "steps = 2.5",
            "the value of `steps` does not fit: Expected `int`, got `float`.",
            _CORRECT,
        ),
        (
            "ignore = 'GC3'",
            "the value of `ignore` does not fit: Expected `array`, got `str`.",
            _CORRECT,
        ),
        (
            "ignore = ['E5']",
            "`E5` in `ignore` is not a code.",
            "Codes look like GC301, or a prefix such as GC3; `graphcheck rule` lists them.",
        ),
        (
            "ignore = ['GC001']",
            "`GC001` in `ignore` cannot be ignored.",
            "GC0 says that the model could not be checked.",
        ),
        (
            "per-module-ignores = {'pool*' = ['pool']}",
            "`pool` in `per-module-ignores.pool*` is not a code.",
            "Codes look like GC301, or a prefix such as GC3; `graphcheck rule` lists them.",
        ),
    ],
)
def test_what_does_not_fit(tmp_path: Path, line: str, message: str, hint: str) -> None:
    path = write(tmp_path, f"[tool.graphcheck]\n{line}\n")
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert caught.value.message == f"{path}: {message}"
    assert caught.value.hint == hint


def test_broken_file_and_missing_table(tmp_path: Path) -> None:
    path = write(tmp_path, "[tool.graphcheck\n")
    with pytest.raises(UsageError, match=r"pyproject.toml is not valid TOML: "):
        load_config(path)
    path = write(tmp_path, "[tool]\ngraphcheck = 3\n")
    with pytest.raises(UsageError, match=r"`tool\.graphcheck` is not a table"):
        load_config(path)
    path = write(tmp_path, "[project]\nname = 'x'\n")
    with pytest.raises(UsageError, match=r"has no table \[tool.graphcheck\]"):
        load_config(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        load_config(path)


def test_a_file_of_its_own_needs_no_table(tmp_path: Path) -> None:
    path = tmp_path / "graphcheck.toml"
    path.write_text("steps = 3\n")
    assert load_config(path).steps == 3


def test_no_file_means_defaults() -> None:
    assert load_config(None) == Config()


def test_nearest_file_with_a_table_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    outer = write(tmp_path, "[tool.graphcheck]\nsteps = 1\n")
    write(tmp_path / "a", "[project]\nname = 'x'\n")
    assert find_pyproject(inner) == outer
    near = write(inner, "[tool.graphcheck]\nsteps = 2\n")
    assert find_pyproject(inner) == near


def test_folder_of_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.py").write_text("")
    assert target_folder(str(tmp_path / "m.py")) == tmp_path
    assert target_folder(f"{tmp_path / 'm.py'}:Net") == tmp_path
    monkeypatch.chdir(tmp_path)
    assert target_folder("torchvision:resnet18") == tmp_path
    assert target_folder("pkg.mod:factory") == tmp_path
