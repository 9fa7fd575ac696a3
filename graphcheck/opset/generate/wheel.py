"""An opset from an executorch wheel, without installing it."""

from __future__ import annotations

import fnmatch
import zipfile
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.opset.generate.names import from_library, from_yaml
from graphcheck.opset.types import Opset

__all__ = ["generate_wheel"]

_RUNTIME = "executorch"
_YAML = (
    "executorch/kernels/portable/functions.yaml",
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


def generate_wheel(path: Path) -> Opset:
    """The kernels of the runtime in a wheel: those of its libraries and of its kernel YAML.

    Raises UsageError if the file is no executorch wheel or holds no kernels.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path)
    except (zipfile.BadZipFile, OSError) as error:
        raise UsageError(f"{path} is no readable wheel: {error}.") from error


def _read(archive: zipfile.ZipFile, path: Path) -> Opset:
    files = archive.namelist()
    version = _version(archive, files, path)
    names: set[str] = set()
    library = ""
    for group in _LIBRARIES:
        found = sorted(name for pattern in group for name in fnmatch.filter(files, pattern))
        held = frozenset().union(*(from_library(archive.read(name)) for name in found))
        if any(name.startswith("aten::") for name in held):
            names |= held
            library = fnmatch.filter(found, group[0])[0].rpartition("/")[2]
            break
    for name in _YAML:
        if name in files:
            names |= from_yaml(archive.read(name).decode(), f"{path}: {name}")
            library = library or name.rpartition("/")[2]
    if not names:
        raise UsageError(f"{path} holds no kernels: no kernel YAML and no library with kernels.")
    return Opset(
        runtime=_RUNTIME,
        version=version,
        library=library,
        kernels=frozenset(names),
        source=f"the wheel {path.name}",
    )


def _version(archive: zipfile.ZipFile, files: list[str], path: Path) -> str:
    for name in fnmatch.filter(files, "executorch-*.dist-info/METADATA"):
        for line in archive.read(name).decode().splitlines():
            if line.startswith("Version: "):
                return line.removeprefix("Version: ").strip().partition("+")[0]
    raise UsageError(f"{path} is no executorch wheel: it has no executorch metadata.")
