"""`model.py` and `model.py:Net`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from graphcheck.errors import ModelError, UsageError
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.seeding import seed_generators
from graphcheck.workload.targets.importing import import_file, loaded_from
from graphcheck.workload.targets.interface import Loaded, TargetKind
from graphcheck.workload.user_code import printable, shown_path

__all__ = ["KIND"]


def _split(target: str) -> tuple[str, str | None]:
    """Path and name; the colon of `C:\\models\\net.py` is part of the path."""
    head, colon, tail = target.rpartition(":")
    if colon and not re.search(r"[/\\]", tail) and (head.endswith(".py") or os.path.exists(head)):
        return head, tail
    return target, None


def _matches(target: str) -> bool:
    if target.startswith("torchvision:") or target.lower().endswith((".pt2", ".pte")):
        return False
    path, _ = _split(target)
    return path.endswith(".py") or "/" in path or os.sep in path or os.path.exists(path)


def _load(request: WorkloadRequest) -> Loaded:
    path, name = _split(request.target)
    shown = printable(path)
    if name is not None and not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(
            f"{request.target!r} does not name a class, function or object after the colon.",
            f"Write `{shown}:Net`, or `{shown}` alone.",
        )
    try:
        file = Path(path).resolve()
        is_folder = file.is_dir()
        exists = file.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path!r} is not a usable path: {error}.", "Check the path.") from error
    if is_folder:
        files = sorted(entry.name for entry in file.glob("*.py"))[:3]
        example = os.path.join(path, files[0]) if files else os.path.join(path, "model.py")
        raise ModelError(f"{shown} is a folder, not a model file.", f"Name the file: `{example}`.")
    if not exists:
        raise ModelError(
            f"There is no file {shown} (looked in {os.getcwd()}).", "Check the path of the model."
        )
    if file.suffix != ".py":
        raise ModelError(f"{shown} is not a Python file.", "Give a file that ends in .py.")
    # What the file makes while it is imported is the same in every process.
    seed_generators(request.seed)
    module = import_file(file)
    return loaded_from(module, name or "", shown_path(str(file)), str(file.parent), request)


KIND = TargetKind(name="file", form="`model.py` or `model.py:Net`", matches=_matches, load=_load)
