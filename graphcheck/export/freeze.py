"""Freezing parameters by name before the export."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from graphcheck.errors import UsageError
from graphcheck.graph.provenance import clean_module_path
from graphcheck.workload.types import Workload

__all__ = ["freeze_"]


def freeze_(workload: Workload, patterns: Sequence[str]) -> tuple[str, ...]:
    """Take the gradient from every parameter whose name matches a pattern, in place.

    A pattern matches a parameter (`head.weight`, `*.bias`) or a module with all it holds
    (`backbone`). Returns the names. Raises UsageError for a pattern that matches nothing.
    """
    named = {
        clean_module_path(name, workload.prefix): parameter
        for name, parameter in workload.module.named_parameters()
    }
    frozen: dict[str, None] = {}
    for pattern in patterns:
        hits = [
            name
            for name in named
            if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}.*")
        ]
        if not hits:
            some = ", ".join(list(named)[:4])
            raise UsageError(
                f"--freeze {pattern}: no parameter has a name like this",
                f"names are such as {some}; a pattern may hold * and ?",
            )
        for name in hits:
            named[name].requires_grad_(False)
            frozen[name] = None
    return tuple(frozen)
