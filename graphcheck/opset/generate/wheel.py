"""An opset from an executorch wheel, without installing it, or from an installed one."""

from __future__ import annotations

import fnmatch
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from graphcheck.errors import DeviceError, UsageError
from graphcheck.opset.generate.names import from_library, from_yaml, optimized_kernels
from graphcheck.opset.types import Opset

__all__ = ["generate_installed", "generate_wheel"]

_RUNTIME = "executorch"
_PORTABLE = "executorch/kernels/portable/functions.yaml"
_YAML = (
    _PORTABLE,
    "executorch/kernels/optimized/optimized.yaml",
)
# The first group of which a file exists is what Python runs. Since 1.5 kernels are in a library of
# their own and primitive ops in the core; before, all is in the Python extension.
_LIBRARIES = (
    (
        "executorch/lib/libexecutorch_kernels_optimized.so",
        "executorch/lib/libexecutorch.so",
    ),
    ("executorch/extension/pybindings/_portable_lib*.so",),
    ("executorch/extension/pybindings/*.so",),
)
# Before 1.5 the runtime's quantized kernels are in the wheel as part of a library for export.
_QUANTIZED = (
    "executorch/lib/libexecutorch_kernels_quantized.so",
    "executorch/kernels/quantized/libquantized_ops_aot_lib.so",
)
_COMMIT = re.compile(r"^git_version.*'([0-9a-f]{40})'", re.MULTILINE)
# Wheels before 1.2 do not carry the list of portable kernels. In the sources of every release since
# 0.6.0 these are the only ones that the portable library has not.
_WITHOUT_PORTABLE = frozenset(["aten::_fft_c2r.out", "aten::_fft_r2c.out", "aten::linear.out"])

_Read = Callable[[str], bytes]


def generate_wheel(path: Path) -> Opset:
    """The kernels of the runtime in a wheel: those of its libraries and of its kernel YAML.

    Raises UsageError if the file is no executorch wheel or holds no kernels.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive.namelist(), archive.read, str(path), f"the wheel {path.name}")
    except (zipfile.BadZipFile, OSError) as error:
        raise UsageError(f"{path} is no readable wheel: {error}.") from error


def generate_installed() -> Opset:
    """The same from the files of the installed package; nothing of it is run.

    Raises DeviceError if executorch is not installed, UsageError as `generate_wheel`.
    """
    from importlib import metadata

    try:
        package = metadata.distribution("executorch")
    except metadata.PackageNotFoundError as error:
        raise DeviceError(
            "The package executorch is not installed, so its kernels are not known.",
            "Install it with `pip install executorch`, or name a wheel with --wheel.",
        ) from error
    files = [str(file) for file in package.files or ()]

    def read(name: str) -> bytes:
        return Path(str(package.locate_file(name))).read_bytes()

    name = f"executorch {package.version}"
    try:
        return _read(files, read, name, f"the installed {name}")
    except OSError as error:
        raise UsageError(f"{name} is installed, but a file is missing: {error}.") from error


def _read(files: list[str], read: _Read, where: str, source: str) -> Opset:
    version = _version(files, read, where)
    names: set[str] = set()
    library, data = "", b""
    for group in _LIBRARIES:
        found = sorted(name for pattern in group for name in fnmatch.filter(files, pattern))
        contents = {name: read(name) for name in found}
        held = frozenset().union(*map(from_library, contents.values()))
        if any(name.startswith("aten::") for name in held):
            names |= held
            library = fnmatch.filter(found, group[0])[0].rpartition("/")[2]
            data = b"".join(contents.values())
            break
    for name in _YAML:
        if name in files:
            names |= from_yaml(read(name).decode(), f"{where}: {name}")
            library = library or name.rpartition("/")[2]
    if not names:
        raise UsageError(f"{where} holds no kernels: no kernel YAML and no library with kernels.")
    optimized = optimized_kernels(data, names, where)
    portable = from_yaml(read(_PORTABLE).decode(), where) if _PORTABLE in files else None
    return Opset(
        runtime=_RUNTIME,
        version=version,
        library=library,
        kernels=frozenset(names),
        source=source,
        optimized=optimized,
        optimized_only=optimized & _WITHOUT_PORTABLE if portable is None else optimized - portable,
        quantized=_quantized(files, read, where),
        commit=_commit(files, read),
    )


def _quantized(files: list[str], read: _Read, where: str) -> frozenset[str]:
    """The names that the library holds and the list of quantized kernels names, too."""
    listed = "executorch/kernels/quantized/quantized.yaml"
    if listed not in files:
        return frozenset()
    names = from_yaml(read(listed).decode(), f"{where}: {listed}")
    held = next((from_library(read(name)) for name in _QUANTIZED if name in files), frozenset())
    return names & held


def _commit(files: list[str], read: _Read) -> str:
    name = "executorch/version.py"
    found = _COMMIT.search(read(name).decode()) if name in files else None
    return found.group(1) if found else ""


def _version(files: list[str], read: _Read, where: str) -> str:
    for name in fnmatch.filter(files, "executorch-*.dist-info/METADATA"):
        for line in read(name).decode().splitlines():
            if line.startswith("Version: "):
                return line.removeprefix("Version: ").strip().partition("+")[0]
    raise UsageError(f"{where} is no executorch wheel: it has no executorch metadata.")
