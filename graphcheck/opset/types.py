"""What a runtime can do: its kernels, and the arguments each refuses."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

__all__ = ["Grade", "KernelLibrary", "Limit", "Opset", "SourceStamp", "Support"]


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
    `measured` is whether it was measured on this very version.
    """

    id: str
    kernel: str
    rule: str
    when: Mapping[str, Any]
    reason: str
    evidence: str = ""
    effect: str = "refused"
    measured: bool = True


@dataclass(frozen=True)
class KernelLibrary:
    """A library of kernels that is loaded beside the runtime.

    `kernels` are registry names with the keys that each is for: dtypes and dim orders of a call's
    tensors as ExecuTorch writes them, "" for any. `known` is whether graphcheck built it.
    """

    name: str
    path: str
    kernels: Mapping[str, frozenset[str]]
    known: bool = False


@dataclass(frozen=True)
class SourceStamp:
    """A patched source tree that the runtime is built from: its version, and by advisory the
    patch that mends it. `name` is that of the stamp's file."""

    name: str
    version: str
    mended: Mapping[str, str]


@dataclass(frozen=True)
class Support:
    """The answer for one op call, with the reason in words.

    `library` is the one that runs the call instead of the runtime's own kernel, of which alone
    everything else here speaks.
    """

    grade: Grade
    reason: str = ""
    limit: Limit | None = None
    kernel: str = ""
    library: KernelLibrary | None = None


@dataclass(frozen=True)
class Opset:
    """The kernels of one runtime: `kernels` holds registry names such as `aten::add.out`.

    `extra` are further kernels of the user's, known by name only. `libraries` are loaded beside
    the runtime, the first that has a kernel for a call runs it.
    `source` is where the names come from, `note` what the user should know about it.

    `optimized` are the kernels of which the optimized library has an implementation of its own;
    `optimized_only` those of them that a portable build lacks. `quantized` is a library beside it.
    `build` names the libraries that are meant, () the one that the wheel's Python runs.
    `commit` is the source that the release was built from.
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
    libraries: tuple[KernelLibrary, ...] = ()
    stamps: tuple[SourceStamp, ...] = ()
    optimized: frozenset[str] = frozenset()
    optimized_only: frozenset[str] = frozenset()
    quantized: frozenset[str] = frozenset()
    build: tuple[str, ...] = ()
    commit: str = ""

    @property
    def portable(self) -> bool:
        """Whether it is a build with the portable kernels instead of the optimized ones."""
        return "portable" in self.build

    @property
    def all_kernels(self) -> frozenset[str]:
        """Every kernel that a program finds: the runtime's, the user's, and those of libraries."""
        return self.kernels.union(self.extra, *(library.kernels for library in self.libraries))

    @cached_property
    def limits_by_kernel(self) -> Mapping[str, tuple[Limit, ...]]:
        """The limits of each kernel, in the order of the data; `*` holds those of all."""
        found: dict[str, list[Limit]] = {}
        for limit in self.limits:
            found.setdefault(limit.kernel, []).append(limit)
        return {kernel: tuple(limits) for kernel, limits in found.items()}
