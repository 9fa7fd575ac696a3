"""Where the data beside the code lives: in a checkout at the top, in a wheel under the package."""

from __future__ import annotations

from pathlib import Path

__all__ = ["opsets_dir", "patches_dir"]

_PACKAGE = Path(__file__).resolve().parent


def _data_dir(name: str) -> Path:
    shipped = _PACKAGE / "data" / name
    return shipped if shipped.is_dir() else _PACKAGE.parent / name


def opsets_dir() -> Path:
    """The folder `opsets/`: operator sets of runtimes, their limits, and advisories."""
    return _data_dir("opsets")


def patches_dir() -> Path:
    """The folder `patches/`: one folder per kernel patch."""
    return _data_dir("patches")
