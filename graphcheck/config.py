"""`[tool.graphcheck]` of the pyproject.toml nearest to the target.

Keys are spelt as the options of the command line. Anything that cannot be used ends in a
UsageError that names file and key: a setting that is ignored would be a check that is not done.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from graphcheck.errors import UsageError
from graphcheck.options import MOST_MEGABYTES, MOST_NUMBER, MOST_SECONDS
from graphcheck.suppress import is_code_prefix

__all__ = ["Config", "find_pyproject", "load_config", "target_folder"]


@dataclass(frozen=True)
class Config:
    """The settings of one pyproject.toml; None or empty where it says nothing.

    Paths among the values (`kernel-library`) are relative to the file's folder, and absolute here.
    """

    path: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_module_ignores: dict[str, tuple[str, ...]] | None = None
    fail_on: str | None = None
    output_format: str | None = None
    timeout: float | None = None
    memory_limit: int | None = None
    kernel_library: tuple[str, ...] = ()
    opset: str | None = None
    input: tuple[str, ...] = ()
    loss: str | None = None
    num_classes: int | None = None
    dynamic_batch: bool | None = None
    steps: int | None = None
    learning_rate: float | None = None
    optimizer: str | None = None


_MOST: dict[str, float] = {
    "timeout": MOST_SECONDS,
    "memory-limit": MOST_MEGABYTES,
    "num-classes": MOST_NUMBER,
    "steps": MOST_NUMBER,
}
_FIELDS = {field.name.replace("_", "-"): field.name for field in fields(Config)[1:]}


def target_folder(target: str) -> Path:
    """The folder a target lives in; the current one for a target that is no file."""
    path = Path(target)
    if not os.path.exists(path):
        path = Path(target.rpartition(":")[0] or target)
    return path.resolve().parent if os.path.isfile(path) else Path.cwd()


def find_pyproject(folder: Path) -> Path | None:
    """The nearest pyproject.toml with a `[tool.graphcheck]` table, from `folder` upwards."""
    for parent in (folder, *folder.parents):
        path = parent / "pyproject.toml"
        if os.path.isfile(path) and _table(path) is not None:
            return path
    return None


def load_config(path: Path | None) -> Config:
    """The settings in this file; the defaults when `path` is None.

    Raises UsageError for a file that cannot be read, an unknown key, or a value that does not fit.
    """
    if path is None:
        return Config()
    table = _table(path)
    if table is None:
        if path.name == "pyproject.toml":
            raise UsageError(
                f"{path} has no table [tool.graphcheck].", "Add the table, or leave --config out."
            )
        table = _read(path)
    for key in table:
        if key not in _FIELDS:
            raise UsageError(f"{path}: unknown key `{key}` in [tool.graphcheck].", _hint(key))
    values = {_FIELDS[key]: _convert(path, key, value) for key, value in table.items()}
    _check_codes(path, values)
    libraries = values.get("kernel_library", ())
    values["kernel_library"] = tuple(str(path.resolve().parent / name) for name in libraries)
    return Config(path=path, **values)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}.",
            "Check the permissions of the file, or name another with --config.",
        ) from None
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except ValueError as error:
        raise UsageError(
            f"{path} is not valid TOML: {error}.",
            "Correct the file, or name another with --config.",
        ) from None
    return data


def _table(path: Path) -> dict[str, Any] | None:
    tool = _read(path).get("tool")
    table = tool.get("graphcheck") if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(
            f"{path}: `tool.graphcheck` is not a table.",
            "Write [tool.graphcheck] and the settings below it.",
        )
    return table


def _hint(key: str) -> str:
    near = difflib.get_close_matches(key.replace("_", "-"), _FIELDS, n=1)
    if near:
        return f"Did you mean `{near[0]}`?"
    return f"Known keys: {', '.join(sorted(_FIELDS))}."


def _convert(path: Path, key: str, value: Any) -> Any:
    wanted: Any = {
        "per-module-ignores": dict[str, tuple[str, ...]],
        "timeout": float,
        "learning-rate": float,
        "memory-limit": int,
        "num-classes": int,
        "steps": int,
        "dynamic-batch": bool,
    }.get(key, str)
    if key in ("select", "ignore", "kernel-library", "input"):
        wanted = tuple[str, ...]
    try:
        converted: Any = msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path}: the value of `{key}` does not fit: {error}.",
            "Correct the value, or take the line out.",
        ) from None
    if wanted in (int, float) and not converted > 0:
        raise UsageError(
            f"{path}: the value of `{key}` must be greater than 0, not {value}.",
            "Correct the value, or take the line out.",
        )
    most = _MOST.get(key)
    if most is not None and converted > most:
        raise UsageError(
            f"{path}: the value of `{key}` must be at most {most:.0f}, not {value}.",
            "Correct the value, or take the line out.",
        )
    return converted


def _check_codes(path: Path, values: dict[str, Any]) -> None:
    lists = {key: values.get(key, ()) for key in ("select", "ignore")}
    for pattern, codes in values.get("per_module_ignores", {}).items():
        lists[f"per-module-ignores.{pattern}"] = codes
    for key, codes in lists.items():
        for code in codes:
            if not is_code_prefix(code):
                raise UsageError(
                    f"{path}: `{code}` in `{key}` is not a code.",
                    "Codes look like GC301, or a prefix such as GC3; `graphcheck rule` lists them.",
                )
            if code.startswith("GC0") and key != "select":
                raise UsageError(
                    f"{path}: `{code}` in `{key}` cannot be ignored.",
                    "GC0 says that the model could not be checked.",
                )
