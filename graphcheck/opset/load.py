"""Loading an opset: a shipped one, a file, the installed runtime's, or the live registry."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
from collections.abc import Iterable
from pathlib import Path

from graphcheck.errors import DeviceError, UsageError
from graphcheck.opset.format import KernelFile, dump, read
from graphcheck.opset.registry import limits_for, public_version, shipped
from graphcheck.opset.target import parse_target, with_build
from graphcheck.opset.types import Opset

__all__ = [
    "elsewhere",
    "extend",
    "installed_version",
    "load",
    "other_release",
    "with_libraries",
    "with_stamps",
]


def installed_version() -> str:
    """Version of the installed executorch package. Raises DeviceError if there is none."""
    try:
        return importlib.metadata.version("executorch")
    except importlib.metadata.PackageNotFoundError as error:
        raise DeviceError(
            "The package executorch is not installed, so its kernels are not known.",
            "Install it with `pip install executorch`, or name an opset with --target.",
        ) from error


def load(name: str = "installed") -> Opset:
    """The opset of a target: `executorch==1.5.1:portable`, `1.5.1`, a path, "installed", "live".

    "installed" is the shipped opset of the installed executorch version; where none is shipped the
    registry of the installed runtime is read in a child process, once per build, and `note` says
    so. "live" always reads the registry. A build such as `:portable+quantized` may follow each.
    Raises UsageError for an unknown name or a broken file, DeviceError if executorch is not
    installed or its registry cannot be read.
    """
    target = parse_target(name)
    return with_build(_named(target.name), target.build)


def _named(name: str) -> Opset:
    if name == "live":
        from graphcheck.opset.generate.live import generate_live

        return _with_limits(generate_live())
    if name == "installed":
        return _installed()
    return _from_file(shipped().get(name) or Path(name))


def extend(opset: Opset, names: Iterable[str]) -> Opset:
    """The opset with the kernels of a user's own library.

    Limits of a kernel that the user replaces do not hold for his. Raises UsageError for a name
    that is no registry name.
    """
    added = frozenset(names)
    for name in sorted(added):
        namespace, separator, op = name.partition("::")
        if not (namespace and separator and op):
            raise UsageError(
                f"{name!r} is no registry name of a kernel; one looks like `aten::add.out`.",
                "Name the kernels as the runtime registers them, with namespace and overload.",
            )
    return dataclasses.replace(opset, extra=opset.extra | added)


def with_libraries(opset: Opset, libraries: Iterable[str]) -> Opset:
    """The opset with kernel libraries, each loaded in a child process to see what it registers.

    Raises UsageError for one that cannot be loaded or registers no kernel.
    """
    from graphcheck.opset.library import read_library

    found = tuple(read_library(Path(library)) for library in libraries)
    return dataclasses.replace(opset, libraries=opset.libraries + found) if found else opset


def with_stamps(opset: Opset, stamps: Iterable[str]) -> Opset:
    """The opset of a runtime that is built from patched source trees with these stamps.

    Each is `FILE`, or `FILE=TREE` to hold it against the tree. Raises UsageError for a file that is
    no stamp, or not that of the tree as it is.
    """
    from graphcheck.opset.stamp import named_stamp, read_stamp

    found = tuple(read_stamp(*named_stamp(stamp)) for stamp in stamps)
    return dataclasses.replace(opset, stamps=opset.stamps + found) if found else opset


def elsewhere(opset: Opset) -> str:
    """What is not measured since the opset is not the installed runtime's; "" where it is.

    What is known of a release without running it: its kernels, and the limits and faults that were
    measured on it when graphcheck's data were made.
    """
    installed = _installed_release()
    if installed == opset.version and not opset.portable:
        return ""
    limits = {limit.id: limit.measured for limit in opset.limits}
    told = f"{sum(limits.values())} of {len(limits)} known limits of kernels were measured on it"
    here = f"is executorch {installed} with optimized kernels" if installed else "is none"
    return (
        f"the installed runtime {here}, where probes and graphcheck validate run; {told}, and what "
        "it alone refuses or gets wrong is not known"
    )


def other_release(opset: Opset) -> str:
    """The version of the opset's runtime, "" where the installed one has it."""
    return "" if opset.version == _installed_release() else opset.version


def _installed_release() -> str:
    try:
        return public_version(installed_version())
    except DeviceError:
        return ""


def _from_file(path: Path) -> Opset:
    content = read(path, KernelFile)
    opset = Opset(
        runtime=content.runtime,
        version=content.version,
        library=content.library,
        kernels=frozenset(content.kernels),
        source=content.source,
        commit=content.commit,
        optimized=frozenset(content.optimized),
        optimized_only=frozenset(content.optimized_only),
        quantized=frozenset(content.quantized),
    )
    return _with_limits(opset)


def _with_limits(opset: Opset) -> Opset:
    return dataclasses.replace(opset, limits=limits_for(opset.runtime, opset.version))


def _installed() -> Opset:
    version = installed_version()
    path = shipped().get(f"executorch-{public_version(version)}")
    if path is not None:
        return _from_file(path)
    note = (
        f"No opset is shipped for executorch {version}: the kernels were read from the installed "
        "runtime, and what they refuse is not known in every case."
    )
    return dataclasses.replace(_with_limits(_cached_live(version)), note=note)


def _cached_live(version: str) -> Opset:
    from graphcheck.files import cache_dir, write_atomic
    from graphcheck.opset.generate.live import generate_live

    try:
        from graphcheck.runtime.libraries import build_id

        build = build_id()
    except ImportError:
        return generate_live()
    try:
        folder = cache_dir("opsets")
    except DeviceError:
        return generate_live()
    path = folder / f"executorch-{public_version(version)}-{build}.yaml"
    if path.is_file():
        try:
            return _from_file(path)
        except UsageError:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    opset = generate_live()
    # It only saves the time to ask the runtime again.
    with contextlib.suppress(OSError):
        write_atomic(path, dump(opset))
    return opset
