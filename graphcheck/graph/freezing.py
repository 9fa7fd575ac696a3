"""What to freeze so that some parameters do not train, and no other."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["freeze_patterns"]


def freeze_patterns(names: Collection[str], trainable: Collection[str]) -> dict[str, list[str]]:
    """The fewest patterns of `--freeze` that name these parameters alone, each with what it names.

    `trainable` are the names of all trainable parameters. A pattern is the outermost module that
    holds none of the others, or the parameter itself.
    """
    wanted = set(names)
    # Modules that hold a parameter which is to be trained.
    kept = {
        ".".join(parts[:depth])
        for parts in (name.split(".") for name in trainable if name not in wanted)
        for depth in range(1, len(parts))
    }
    found: dict[str, list[str]] = {}
    for name in names:
        parts = name.split(".")
        modules = (".".join(parts[:depth]) for depth in range(1, len(parts)))
        pattern = next((module for module in modules if module not in kept), name)
        found.setdefault(pattern, []).append(name)
    return found
