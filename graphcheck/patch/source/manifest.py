"""What graphcheck changed in a tree: a manifest with the hashes before and after, and originals.

All of it lives in the folder `.graphcheck` at the top of the tree, which holds nothing else and is
gone again when everything is reverted.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from graphcheck.errors import UsageError

__all__ = ["FOLDER", "FileRecord", "Manifest", "original_of", "read_manifest", "sha256"]

FOLDER = ".graphcheck"
_NAME = "patches.json"
_SCHEMA = 1


class FileRecord(msgspec.Struct, frozen=True):
    """One edited file: its path in the tree, SHA-256 before and after, the ids of the patches."""

    path: str
    before: str
    after: str
    patches: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """The edited files of a tree, in order of their paths."""

    files: tuple[FileRecord, ...] = ()
    schema: int = _SCHEMA

    def record(self, path: str) -> FileRecord | None:
        """The record of one file, or None."""
        return next((record for record in self.files if record.path == path), None)

    def encoded(self) -> bytes:
        """The manifest as it is written."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def sha256(data: bytes) -> str:
    """The hash in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def manifest_path(root: Path) -> Path:
    """Where the manifest of a tree is."""
    return root / FOLDER / _NAME


def original_path(root: Path, digest: str) -> Path:
    """Where the original with this hash is kept."""
    return root / FOLDER / "originals" / digest


def read_manifest(root: Path) -> Manifest:
    """The manifest of a tree, an empty one where there is none.

    Raises UsageError when it cannot be read, or when `.graphcheck` leads out of the tree.
    """
    path = manifest_path(root)
    if not (root / FOLDER).resolve().is_relative_to(root):
        raise UsageError(
            f"{root / FOLDER} leads out of the tree, to {(root / FOLDER).resolve()}.",
            "Remove that symbolic link. Nothing was changed.",
        )
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return Manifest()
    except (OSError, msgspec.DecodeError) as error:
        raise _damaged(path, " ".join(str(error).split())) from error
    if manifest.schema != _SCHEMA:
        raise _damaged(path, f"its schema is {manifest.schema}, not {_SCHEMA}")
    for record in manifest.files:
        if Path(record.path).is_absolute() or ".." in Path(record.path).parts:
            raise _damaged(path, f"{record.path} leads out of the tree")
    return manifest


def original_of(root: Path, record: FileRecord) -> bytes:
    """The bytes of a file before it was edited. Raises UsageError if they are not there."""
    path = original_path(root, record.before)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _lost(record, f"{path} cannot be read: {error.strerror}") from error
    if sha256(data) != record.before:
        raise _lost(record, f"{path} was changed")
    return data


def _lost(record: FileRecord, why: str) -> UsageError:
    return UsageError(
        f"the original of {record.path} is lost ({why}).",
        "Restore the file with your version control. Nothing was changed.",
    )


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        f"the manifest {path} cannot be used: {why}.",
        f"Restore the tree with your version control and remove {path.parent}. Nothing was"
        " changed.",
    )
