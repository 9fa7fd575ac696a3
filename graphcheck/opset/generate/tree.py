"""An opset from an ExecuTorch source tree."""

from __future__ import annotations

import re
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.opset.generate.names import from_yaml
from graphcheck.opset.types import Opset

__all__ = ["generate_tree"]

_PORTABLE = ("kernels/portable/functions.yaml", "kernels/portable/et_copy_ops.yaml")
_OPTIMIZED = ("kernels/optimized/optimized.yaml",)
_QUANTIZED = ("kernels/quantized/quantized.yaml",)
# Primitive ops are registered in code: `Kernel("executorch_prim::add.Scalar", ...)`.
_PRIMITIVES = "kernels/prim_ops/*.cpp"
_REGISTERED = re.compile(r'"((?:executorch_prim|aten)::[A-Za-z_0-9]+(?:\.[A-Za-z_0-9]+)?)"')


def generate_tree(root: Path) -> Opset:
    """The portable, optimized, quantized and primitive kernels of a tree.

    Raises UsageError if the folder is no ExecuTorch source tree.
    """
    if not (root / _PORTABLE[0]).is_file():
        raise UsageError(f"{root} is no ExecuTorch source tree: it has no {_PORTABLE[0]}.")
    portable = set(_listed(root, _PORTABLE))
    for path in sorted(root.glob(_PRIMITIVES)):
        portable |= set(_REGISTERED.findall(path.read_text(encoding="utf-8")))
    optimized = _listed(root, _OPTIMIZED)
    version_file = root / "version.txt"
    version = version_file.read_text(encoding="utf-8").strip() if version_file.is_file() else ""
    version = re.sub(r"[^0-9.].*$", "", version)
    return Opset(
        runtime="executorch",
        version=version or "unknown",
        library="portable and optimized kernels",
        kernels=optimized | portable,
        source=f"a source tree (version {version or 'unknown'})",
        optimized=optimized,
        optimized_only=optimized - portable,
        quantized=_listed(root, _QUANTIZED),
    )


def _listed(root: Path, names: tuple[str, ...]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for path in (root / name for name in names):
        if path.is_file():
            found |= from_yaml(path.read_text(encoding="utf-8"), str(path))
    return found
