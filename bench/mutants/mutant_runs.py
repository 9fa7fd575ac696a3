"""The mutants: their table, the library that holds them, and a validation with one of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from graphcheck.options import ValidateOptions  # noqa: E402
from graphcheck.validate.types import Verdict  # noqa: E402

__all__ = ["TARGETS", "Mutant", "build", "build_mutants", "lowered", "mutants", "validate"]

_TEXT = r'((?:"[^"]*"\s*)+)'
_ENTRY = re.compile(
    rf'^MUTANT\(\s*(\w+),\s*"([^"]+)",\s*{_TEXT},\s*"([^"]+)",\s*{_TEXT}\)', re.MULTILINE
)
_PARTS = ("avg_pool2d_backward", "constant_pad_nd", "max_pool2d_with_indices_backward")
"""Kernels of ours for what the runtime has wrong or not at all: the models need them."""


TARGETS = {"host": "host", "qemu-aarch64": "aarch64-linux"}
"""Devices that a mutant can be chosen on, and what a library is built for there."""


@dataclass(frozen=True)
class Mutant:
    """A faulty kernel: the operator it replaces, a model that shows it, what is wrong with it."""

    name: str
    op: str
    model: str
    what: str


def mutants() -> tuple[Mutant, ...]:
    """All mutants, as their C++ sources list them."""
    found = []
    for source in sorted(HERE.glob("*.cpp")):
        for name, op, _, model, what in _ENTRY.findall(source.read_text()):
            found.append(Mutant(name, op, model, "".join(re.findall(r'"([^"]*)"', what))))
    return tuple(found)


def build_mutants(folder: Path, files: tuple[str, ...] = (), target: str = "host") -> Path:
    """The library of the mutants in these files (`pools`), of all by default.

    `target` is that of `graphcheck patch build`. Raises DeviceError without a compiler or the
    runtime.
    """
    from graphcheck.patch.library.targets import find_target
    from graphcheck.runtime.toolchain import compile_library

    library = folder / "libmutants.so"
    if not library.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        sources = [
            source
            for source in sorted(HERE.glob("*.cpp"))
            if not files or source.stem in (*files, "registry")
        ]
        found = find_target(target)
        compile_library(found.compiler, sources, library, found.libraries, ["-Wall", "-Wextra"])
    return library


def build(folder: Path, on: str = "host") -> tuple[Path, Path]:
    """The library of all mutants, and that of the right kernels the models need, for a device."""
    from graphcheck.patch.library.build import build_library

    target = TARGETS[on]
    faulty = build_mutants(folder / target, target=target)
    right = folder / target / "right"
    library = right / "libgraphcheck_kernels.so"
    if not library.is_file():
        library = build_library(right, ops=_PARTS, target=target).library
    return faulty, library


@cache
def lowered(model: str) -> Any:
    """The stock lowering of one of the models."""
    from mutant_models import workload

    from graphcheck.runtime.lower import lower

    found = lower(workload(model))
    assert found.program is not None, found.failure
    return found


@contextmanager
def _chosen(name: str) -> Iterator[None]:
    """A runner on this machine has our environment, an emulated one, too."""
    before = os.environ.get("GRAPHCHECK_MUTANT")
    os.environ["GRAPHCHECK_MUTANT"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["GRAPHCHECK_MUTANT"]
        else:
            os.environ["GRAPHCHECK_MUTANT"] = before


def validate(
    model: str,
    libraries: tuple[Path, ...],
    mutant: str = "",
    *,
    reproducers: str = "",
    on: str = "host",
) -> Verdict:
    """`validate --shadow` of a model for two steps on a device, with that mutant or none."""
    from mutant_models import workload

    from graphcheck.validate.run import validate_workload

    options = ValidateOptions(
        target=model,
        steps=2,
        shadow=True,
        on=(on,),
        reproducers=reproducers,
        kernel_libraries=tuple(map(str, libraries)),
    )
    with _chosen(mutant):
        return validate_workload(workload(model), options, lowered=lowered(model))
