"""Stamps of patched source trees: which known faults a runtime built from one does not have."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from graphcheck.errors import UsageError
from graphcheck.opset.types import SourceStamp

__all__ = ["STAMP_SCHEMA", "named_stamp", "read_stamp"]

STAMP_SCHEMA = 1


class _Patch(msgspec.Struct, frozen=True):
    id: str
    state: str
    advisories: tuple[str, ...]
    files: dict[str, str]


class _Stamp(msgspec.Struct, frozen=True):
    schema: int
    project: str
    version: str
    patches: tuple[_Patch, ...]


def named_stamp(text: str) -> tuple[Path, Path | None]:
    """The stamp, and the tree to hold it against, of `FILE` or `FILE=TREE`."""
    file, separator, tree = text.rpartition("=")
    if separator and file and not Path(text).exists():
        return Path(file), Path(tree)
    return Path(text), None


def read_stamp(path: Path, tree: Path | None = None) -> SourceStamp:
    """Read what `graphcheck patch apply --stamp` wrote, and hold it against `tree` if there is one.

    Raises UsageError if it is no stamp, or a file that it vouches for is another in the tree.
    """
    hint = "`graphcheck patch apply --source DIR --stamp FILE` writes one."
    try:
        stamp = msgspec.json.decode(path.read_bytes(), type=_Stamp)
    except OSError as error:
        raise UsageError(f"--stamp {path} cannot be read: {error.strerror}.", hint) from error
    except msgspec.DecodeError as error:
        why = " ".join(str(error).split())
        raise UsageError(f"--stamp {path} is no stamp: {why}.", hint) from error
    if stamp.schema != STAMP_SCHEMA or stamp.project != "executorch":
        told = f"its schema is {stamp.schema}, its project {stamp.project}"
        raise UsageError(f"--stamp {path} is no stamp of an ExecuTorch tree: {told}.", hint)
    if tree is not None:
        _hold_against(tree, path, stamp)
    return SourceStamp(
        name=path.name,
        version=stamp.version,
        mended={advisory: patch.id for patch in stamp.patches for advisory in patch.advisories},
    )


def _hold_against(tree: Path, path: Path, stamp: _Stamp) -> None:
    for patch in stamp.patches:
        for name, digest in patch.files.items():
            where = tree / name
            # A stamp is somebody else's file: it must not make us read outside of the tree.
            if not where.resolve().is_relative_to(tree.resolve()):
                raise UsageError(
                    f"--stamp {path} is no stamp of {tree}: it names {name}, outside of the tree.",
                    "Write it anew with `graphcheck patch apply --source DIR --stamp FILE`.",
                )
            try:
                data = where.read_bytes()
            except OSError as error:
                raise UsageError(
                    f"--stamp {path} does not hold for {tree}: {name} of patch {patch.id} cannot "
                    f"be read: {error.strerror}.",
                    "Name the tree that it was written for.",
                ) from error
            if hashlib.sha256(data).hexdigest() != digest:
                raise UsageError(
                    f"--stamp {path} does not hold for {tree}: {name} of patch {patch.id} was "
                    "changed since.",
                    f"Run `graphcheck patch apply --source {tree} --stamp {path}` again.",
                )
