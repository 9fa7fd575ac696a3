"""The runtime that a check is made for: `executorch==1.3.1:portable+quantized`, or a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.opset.registry import shipped
from graphcheck.opset.types import Opset

__all__ = ["LIBRARIES", "Target", "nearest", "parse_target", "with_build"]

LIBRARIES = ("portable", "optimized", "quantized")
_RUNTIME = "executorch"
_NAMED = re.compile(
    r"^(?P<name>[A-Za-z][A-Za-z0-9_.-]*?)\s*(?P<how>===?|[<>~!=]=?)\s*(?P<version>.*)$"
)
_VERSION = re.compile(r"^\d+(\.\d+)*")
_HINT = (
    "`graphcheck opset list` lists those known, `graphcheck opset generate` makes one from a wheel "
    "or a source tree."
)


@dataclass(frozen=True)
class Target:
    """`name` is `installed`, `live`, the name of a shipped opset or a path; `build` libraries."""

    name: str
    build: tuple[str, ...] = ()


def parse_target(text: str) -> Target:
    """What a target names. Raises UsageError for an unknown version, runtime or library."""
    head, build = _split(text.strip())
    if head in ("", "installed", "live"):
        return Target(head or "installed", build)
    known = shipped()
    for name in (head, f"{_RUNTIME}-{head.partition('+')[0]}"):
        if name in known:
            return Target(name, build)
    named = _NAMED.match(head)
    if named is None or Path(head).exists():
        if Path(head).is_file():
            return Target(head, build)
        version = head.removeprefix(f"{_RUNTIME}-")
        raise _unknown(version) if _VERSION.match(version) else _no_file(head)
    if named["name"].lower() != _RUNTIME:
        raise UsageError(
            f"There is no opset of a runtime {named['name']!r}: known are those of {_RUNTIME}.",
            _HINT,
        )
    if named["how"] != "==":
        raise UsageError(
            f"The target {text!r} is a range of versions: name one, such as executorch==1.3.1.",
            _HINT,
        )
    version = named["version"].partition("+")[0]
    if f"{_RUNTIME}-{version}" not in known:
        raise _unknown(version)
    return Target(f"{_RUNTIME}-{version}", build)


def nearest(version: str, versions: Iterable[str]) -> tuple[str, ...]:
    """The known versions next to one that is not: the last before it and the first after it."""
    from packaging.version import InvalidVersion, Version

    ordered = sorted(versions, key=Version)
    try:
        wanted = Version(version)
    except InvalidVersion:
        return tuple(ordered[-1:])
    before = [entry for entry in ordered if Version(entry) < wanted]
    after = [entry for entry in ordered if Version(entry) > wanted]
    return (*before[-1:], *after[:1])


def with_build(opset: Opset, build: tuple[str, ...]) -> Opset:
    """The opset of a build with these libraries; unchanged without any.

    Raises UsageError when the opset does not tell which kernels are in a library.
    """
    if not build:
        return opset
    for library in build:
        # A list of portable kernels is what is left without the optimized ones.
        listed = opset.quantized if library == "quantized" else opset.optimized
        if not listed:
            raise UsageError(
                f"The opset of {opset.runtime} {opset.version} from {opset.source} does not tell "
                f"which kernels are {library}.",
                "Generate it from a wheel, or leave the library out.",
            )
    kernels = opset.kernels - opset.optimized_only if "portable" in build else opset.kernels
    if "quantized" in build:
        kernels |= opset.quantized
    named = build if set(build) & {"portable", "optimized"} else ("optimized", *build)
    return replace(opset, kernels=kernels, build=named, library=f"{' and '.join(named)} kernels")


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    head, colon, tail = text.rpartition(":")
    if not colon or Path(text).is_file():
        return text, ()
    names = tuple(name.strip().lower() for name in tail.split("+"))
    for name in names:
        if name not in LIBRARIES:
            raise UsageError(
                f"The target {text!r} names a kernel library {name!r}, which is none.",
                f"Choose {', '.join(LIBRARIES[:-1])} or {LIBRARIES[-1]}; join two with +.",
            )
    if {"portable", "optimized"} <= set(names):
        raise UsageError(
            f"The target {text!r} names both portable and optimized, of which a build has one.",
            "The optimized library brings the portable kernels for all it has none of.",
        )
    return head, tuple(name for name in LIBRARIES if name in names)


def _unknown(version: str) -> UsageError:
    versions = [name.removeprefix(f"{_RUNTIME}-") for name in shipped()]
    near = nearest(version, versions)
    one = "The nearest known one is" if len(near) == 1 else "The nearest known ones are"
    return UsageError(
        f"There is no opset of {_RUNTIME} {version}. {one} {' and '.join(near)}.", _HINT
    )


def _no_file(name: str) -> UsageError:
    return UsageError(
        f"There is no opset {name!r}: no file, and shipped are {', '.join(shipped())}.", _HINT
    )
