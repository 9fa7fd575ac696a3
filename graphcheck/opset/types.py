"""What a runtime can do: its kernels, and the arguments each refuses."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

__all__ = ["Grade", "Limit", "Opset", "Support"]


class Grade(enum.StrEnum):
    """How far an op call is supported."""

    MISSING = "no kernel"
    NO_OUT_VARIANT = "no out variant"
    NOT_CORE = "not core ATen"
    REFUSED = "refuses these arguments"
    WRONG = "known wrong in this build"
    DECOMPOSED = "right because it decomposes"
    REGISTERED = "registered"
    MEASURED = "measured in parity"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Limit:
    """Arguments a registered kernel refuses, or gets wrong.

    `kernel` is the registry name, `*` for all. `when` is the condition as data, `rule` the GC2
    code it gives, `reason` the end of a sentence, `evidence` how it was measured. `effect` is
    "refused" (the runtime stops with an error) or "wrong" (it goes on with wrong numbers).
    """

    id: str
    kernel: str
    rule: str
    when: Mapping[str, Any]
    reason: str
    evidence: str = ""
    effect: str = "refused"


@dataclass(frozen=True)
class Support:
    """The answer for one op call, with the reason in words."""

    grade: Grade
    reason: str = ""
    limit: Limit | None = None
    kernel: str = ""


@dataclass(frozen=True)
class Opset:
    """The kernels of one runtime: `kernels` holds registry names such as `aten::add.out`.

    `extra` are kernels of the user's own library: what they do is not known to graphcheck.
    `source` is where the names come from, `note` what the user should know about it.
    """

    runtime: str
    version: str
    library: str
    kernels: frozenset[str]
    limits: tuple[Limit, ...] = ()
    measured: frozenset[str] = frozenset()
    extra: frozenset[str] = frozenset()
    source: str = ""
    note: str = ""

    @cached_property
    def limits_by_kernel(self) -> Mapping[str, tuple[Limit, ...]]:
        """The limits of each kernel, in the order of the data; `*` holds those of all."""
        found: dict[str, list[Limit]] = {}
        for limit in self.limits:
            found.setdefault(limit.kernel, []).append(limit)
        return {kernel: tuple(limits) for kernel, limits in found.items()}
