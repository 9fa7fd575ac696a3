"""The C++ sources of the kernels: one folder per operator under `patches/`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.resources import patches_dir

__all__ = ["common_sources", "kernel_sources"]

_COMMON = "common"


def kernel_sources(names: Sequence[str] = ()) -> dict[str, Path]:
    """The kernel files by name of their folder, all or those named, sorted.

    Raises UsageError for a name that there is no kernel of.
    """
    found = {path.parent.name: path for path in sorted(patches_dir().glob("*/kernel.cpp"))}
    for name in names:
        if name not in found:
            if (patches_dir() / name / "patch.yaml").is_file():
                raise UsageError(
                    f"{name!r} is an edit of ExecuTorch's source, not a kernel of the library.",
                    f"Use `graphcheck patch apply --source DIR --only {name}`.",
                )
            near = difflib.get_close_matches(name, found, n=1)
            guess = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"There is no kernel {name!r}.", f"{guess}Kernels: {', '.join(found)}."
            )
    return {name: path for name, path in found.items() if not names or name in names}


def common_sources() -> tuple[Path, ...]:
    """What every library of kernels is built with."""
    return tuple(sorted((patches_dir() / _COMMON).glob("*.cpp")))
