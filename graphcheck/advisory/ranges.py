"""Whether a version is in the range of an advisory."""

from __future__ import annotations

from graphcheck.advisory.types import Advisory

__all__ = ["in_range"]


def in_range(advisory: Advisory, version: str) -> bool | None:
    """Whether a runtime version is affected as far as is known; None when nothing is known.

    True inside the range that was measured or reported, False from `fixed_in` on.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        parsed = Version(version)
    except InvalidVersion:
        return None
    # A local label (1.5.1+cpu) names a build of the same version.
    parsed = Version(parsed.public)
    if SpecifierSet(advisory.affected).contains(parsed, prereleases=True):
        return True
    if advisory.fixed_in and parsed >= Version(advisory.fixed_in):
        return False
    return None
