"""Stamps of patched source trees: which known faults a runtime built from one does not have."""

from __future__ import annotations

from pathlib import Path

import msgspec

from graphcheck.errors import UsageError
from graphcheck.opset.types import SourceStamp

__all__ = ["STAMP_SCHEMA", "read_stamp"]

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


def read_stamp(path: Path) -> SourceStamp:
    """Read what `graphcheck patch apply --stamp` wrote. Raises UsageError if it is none."""
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
    return SourceStamp(
        name=path.name,
        version=stamp.version,
        mended={advisory: patch.id for patch in stamp.patches for advisory in patch.advisories},
    )
