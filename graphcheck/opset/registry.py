"""Which opsets, limits and lowering rules are shipped, and for which versions."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.opset.format import LimitFile, LoweringFile, read
from graphcheck.opset.types import Limit
from graphcheck.resources import opsets_dir

__all__ = ["covers", "limits_for", "lowering_for", "public_version", "shipped"]


def public_version(version: str) -> str:
    """`1.5.1` of `1.5.1+cpu`; anything that is no version stays as it is."""
    return version.partition("+")[0]


def shipped() -> dict[str, Path]:
    """Names of the shipped opsets (`executorch-1.5.1`) with their files, in order of version."""
    from packaging.version import Version

    # Other files beside them (swaps) have no version in their name.
    found = {path.stem: path for path in opsets_dir().glob("*-[0-9]*.yaml")}
    return {name: found[name] for name in sorted(found, key=lambda n: Version(n.split("-")[-1]))}


def covers(versions: str, version: str, where: str) -> bool:
    """Whether a PEP 440 range holds this version; false for what is no version (a source tree).

    Raises UsageError naming `where` for a range that is none.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        allowed = SpecifierSet(versions)
    except InvalidSpecifier as error:
        raise UsageError(f"{where}: versions: {versions!r} is no version range.") from error
    try:
        return allowed.contains(Version(public_version(version)), prereleases=True)
    except InvalidVersion:
        return False


@lru_cache(maxsize=16)
def limits_for(runtime: str, version: str) -> tuple[Limit, ...]:
    """The limits that are known for a runtime; () when none are."""
    found: list[Limit] = []
    for path in sorted((opsets_dir() / "limits").glob("*.yaml")):
        content = read(path, LimitFile)
        if content.runtime == runtime and covers(content.versions, version, str(path)):
            found.extend(content.expand(str(path), public_version(version)))
    return tuple(found)


@lru_cache(maxsize=16)
def lowering_for(runtime: str, version: str) -> LoweringFile:
    """What lowering does in a version; of the newest known one when the version is unknown.

    Raises UsageError when nothing is shipped for the runtime.
    """
    newest: LoweringFile | None = None
    for path in sorted((opsets_dir() / "lowering").glob("*.yaml")):
        content = read(path, LoweringFile)
        if content.runtime != runtime:
            continue
        newest = content
        if covers(content.versions, version, str(path)):
            return content
    if newest is None:
        raise UsageError(f"{opsets_dir() / 'lowering'} has no file for the runtime {runtime!r}.")
    return newest
