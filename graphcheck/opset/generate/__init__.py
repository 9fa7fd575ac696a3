"""Making an opset from where kernels come from: a wheel, a source tree, the live registry."""

from __future__ import annotations

from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.opset.types import Opset

__all__ = ["generate"]


def generate(source: str | Path) -> Opset:
    """The opset of a `.whl` file, of an ExecuTorch source tree, or of the runtime.

    "live" reads the registry of the installed runtime, "installed" the files of its package.

    Limits are not part of it: they are kept by hand and come with `graphcheck.opset.load`.
    Raises UsageError for anything else, and for a source without kernels.
    """
    if source == "live":
        from graphcheck.opset.generate.live import generate_live

        return generate_live()
    if source == "installed":
        from graphcheck.opset.generate.wheel import generate_installed

        return generate_installed()
    path = Path(source)
    if path.is_dir():
        from graphcheck.opset.generate.tree import generate_tree

        return generate_tree(path)
    if path.suffix == ".whl" and path.is_file():
        from graphcheck.opset.generate.wheel import generate_wheel

        return generate_wheel(path)
    raise UsageError(
        f"No opset can be made from {str(source)!r}: it is neither a .whl file, nor the folder of "
        "an ExecuTorch source tree, nor the word `live` or `installed`."
    )
