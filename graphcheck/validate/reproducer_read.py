"""Reading a reproducer's folder, which somebody else may have made: all of it checked first."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

import msgspec

from graphcheck.errors import ModelError

__all__ = ["FILES", "SCHEMA", "Facts", "damaged", "read_reproducer"]

FILES = ("op.pte", "tensors.npz", "reproducer.json")
SCHEMA = "1"
_HINT = "Write it anew with `graphcheck validate TARGET --shadow --reproducers DIR`."
_NUMBERS = "biuf"


class GivenInput(msgspec.Struct, frozen=True):
    """An input of the program: its bytes are an array of their own."""

    dtype: str
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]


class Found(msgspec.Struct, frozen=True):
    """The instruction that was wrong; what else was found of it is for the reader."""

    op: str
    instruction: int


class Facts(msgspec.Struct, frozen=True):
    """What `reproducer.json` says. `outputs` are the roles of the program's outputs."""

    kind: str
    schema_version: str
    instruction: Found
    inputs: tuple[GivenInput, ...]
    outputs: tuple[Literal["output", "input", "guard", "unknown"], ...]
    kernel_libraries: tuple[str, ...]


def read_reproducer(folder: Path) -> tuple[Facts, dict[str, Any]]:
    """The facts and arrays of a reproducer. Raises ModelError for what is none, or damaged."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise ModelError(
            f"{folder} is no reproducer: it has no {missing[0]}",
            "Name a folder that `graphcheck validate --shadow --reproducers DIR` wrote.",
            code="",
        )
    facts = _facts(folder)
    arrays = _arrays(folder)
    for index, _ in enumerate(facts.inputs):
        _array(folder, arrays, f"input_{index}", "u")
    for index, role in enumerate(facts.outputs):
        expected = _array(folder, arrays, f"expected_{index}", _NUMBERS)
        tolerance = _array(folder, arrays, f"tolerance_{index}", _NUMBERS)
        if role != "unknown" and tolerance.shape not in ((), expected.shape):
            raise damaged(
                folder, f"tolerance_{index} of {FILES[1]} has another shape than expected_{index}"
            )
    return facts, arrays


def damaged(folder: Path, why: str) -> ModelError:
    """The error of a reproducer that cannot be run."""
    return ModelError(f"{folder} is a damaged reproducer: {why}", _HINT, code="")


def _facts(folder: Path) -> Facts:
    name = FILES[2]
    try:
        data = (folder / name).read_bytes()
        versioned = msgspec.json.decode(data, type=dict[str, Any])
    except OSError as error:
        raise damaged(folder, f"{name} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise damaged(folder, f"{name} is no JSON object") from None
    if versioned.get("kind") != "reproducer":
        raise damaged(folder, f"{name} is not that of a reproducer")
    if versioned.get("schema_version") != SCHEMA:
        raise damaged(folder, "it is of another version")
    try:
        return msgspec.convert(versioned, Facts)
    except msgspec.ValidationError as error:
        raise damaged(folder, f"{name} has a wrong form: {error}") from None


def _arrays(folder: Path) -> dict[str, Any]:
    import numpy

    try:
        with zipfile.ZipFile(folder / FILES[1]) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise damaged(folder, f"{broken} in {FILES[1]} is not what was written")
        with numpy.load(folder / FILES[1], allow_pickle=False) as file:
            return dict(file)
    except OSError as error:
        raise damaged(folder, f"{FILES[1]} cannot be read: {error.strerror}") from None
    except (ValueError, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
        raise damaged(folder, f"{FILES[1]} holds what is no array: {_line(error)}") from None
    except (zipfile.BadZipFile, zlib.error):
        raise damaged(folder, f"{FILES[1]} is no archive of arrays, or was cut short") from None


def _array(folder: Path, arrays: dict[str, Any], name: str, kinds: str) -> Any:
    if name not in arrays:
        raise damaged(folder, f"{FILES[1]} lacks {name}")
    if arrays[name].dtype.kind not in kinds:
        raise damaged(folder, f"{name} of {FILES[1]} is of dtype {arrays[name].dtype}")
    return arrays[name]


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
