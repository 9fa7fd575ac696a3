"""What changes between two operator sets, and where a kernel is known from."""

from __future__ import annotations

from dataclasses import dataclass

from graphcheck.opset.types import Opset

__all__ = ["Difference", "LibraryDifference", "compare", "lists_of", "present_since"]


@dataclass(frozen=True)
class LibraryDifference:
    """Kernels of one library that the second opset has and the first has not, and the reverse."""

    library: str
    before: int
    after: int
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Per library, in the order of `lists_of`."""

    before: Opset
    after: Opset
    libraries: tuple[LibraryDifference, ...]

    @property
    def same(self) -> bool:
        """Whether every library has the same kernels."""
        return not any(entry.added or entry.removed for entry in self.libraries)


def lists_of(opset: Opset) -> dict[str, frozenset[str]]:
    """The kernels of each library: `portable` with the primitive ops that every build has,
    `optimized` those with an implementation of its own, `quantized`."""
    return {
        "portable": opset.kernels - opset.optimized_only,
        "optimized": opset.optimized,
        "quantized": opset.quantized,
    }


def compare(before: Opset, after: Opset) -> Difference:
    """What `after` has that `before` has not, and the reverse, per library."""
    one, two = lists_of(before), lists_of(after)
    return Difference(
        before,
        after,
        tuple(
            LibraryDifference(
                name,
                len(one[name]),
                len(two[name]),
                tuple(sorted(two[name] - one[name])),
                tuple(sorted(one[name] - two[name])),
            )
            for name in one
        ),
    )


def present_since(kernel: str, opsets: list[Opset], version: str) -> str:
    """The first known version from which on every one up to `version` has the kernel; "" for none.

    `opsets` are in order of version. The first of them may not be where the kernel began.
    """
    since = ""
    for opset in opsets:
        has = kernel in opset.kernels or kernel in opset.quantized
        since = (since or opset.version) if has else ""
        if opset.version == version:
            break
    return since
