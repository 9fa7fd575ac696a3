"""An opset from an ExecuTorch source tree."""

from __future__ import annotations

import re
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.opset.generate.names import from_yaml
from graphcheck.opset.types import Opset

__all__ = ["generate_tree"]

_YAML = (
    "kernels/portable/functions.yaml",
    "kernels/portable/et_copy_ops.yaml",
    "kernels/optimized/optimized.yaml",
)
# Primitive ops are registered in code: `Kernel("executorch_prim::add.Scalar", ...)`.
_PRIMITIVES = "kernels/prim_ops/*.cpp"
_REGISTERED = re.compile(r'"((?:executorch_prim|aten)::[A-Za-z_0-9]+(?:\.[A-Za-z_0-9]+)?)"')


def generate_tree(root: Path) -> Opset:
    """The portable, optimized and primitive kernels of a tree.

    Raises UsageError if the folder is no ExecuTorch source tree.
    """
    portable = root / _YAML[0]
    if not portable.is_file():
        raise UsageError(f"{root} is no ExecuTorch source tree: it has no {_YAML[0]}.")
    names: set[str] = set()
    for name in _YAML:
        path = root / name
        if path.is_file():
            names |= from_yaml(path.read_text(encoding="utf-8"), str(path))
    for path in sorted(root.glob(_PRIMITIVES)):
        names |= set(_REGISTERED.findall(path.read_text(encoding="utf-8")))
    version_file = root / "version.txt"
    version = version_file.read_text(encoding="utf-8").strip() if version_file.is_file() else ""
    version = re.sub(r"[^0-9.].*$", "", version)
    return Opset(
        runtime="executorch",
        version=version or "unknown",
        library="portable and optimized kernels",
        kernels=frozenset(names),
        source=f"a source tree (version {version or 'unknown'})",
    )
