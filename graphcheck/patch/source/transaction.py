"""Change many files of a tree, all or none, whatever happens in between.

The new contents are written and synced beside the manifest first, then a journal that names them
(the point of no return), then each file is replaced by a rename. A run that is killed before the
journal has changed nothing; one that is killed after it is completed by the next run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from graphcheck.errors import UsageError
from graphcheck.files import write_atomic
from graphcheck.patch.source.manifest import (
    FOLDER,
    Manifest,
    manifest_path,
    original_path,
    read_manifest,
    sha256,
)

__all__ = ["Change", "commit", "interrupted", "locked", "recover"]

_JOURNAL = "journal.json"
_STAGED = "staged"
_LOCK_SECONDS = 120.0


@dataclass(frozen=True)
class Change:
    """The new bytes of one file (`path` is relative to the root) and those it must have now."""

    path: str
    before: bytes
    after: bytes


class _Entry(msgspec.Struct, frozen=True):
    path: str
    before: str
    after: str


class _Journal(msgspec.Struct, frozen=True):
    verb: str
    files: tuple[_Entry, ...]
    manifest: Manifest


@contextlib.contextmanager
def locked(root: Path, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Keep other runs away from this tree. Raises UsageError when one does not end in time.

    The lock is on the folder itself: it leaves no file, and the system lifts it if we are killed.
    """
    import fcntl

    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise UsageError(
                        f"another graphcheck has been at work in {root} for {seconds:.0f} s.",
                        "Wait for it, or end it. Nothing was changed.",
                    ) from None
                time.sleep(0.05)
            except OSError as error:
                raise UsageError(
                    f"{root} cannot be locked: {error.strerror}.",
                    "Work on a copy on a local disk. Nothing was changed.",
                ) from error
        yield
    finally:
        os.close(handle)


def interrupted(root: Path) -> str:
    """The verb of a run that was interrupted, or nothing."""
    journal = _read_journal(root)
    return journal.verb if journal is not None else ""


def recover(root: Path) -> str:
    """Complete a run that was interrupted; the verb it was, or nothing. Call it with the lock.

    Raises UsageError when a file is neither as it was before nor as it was to become.
    """
    journal = _read_journal(root)
    if journal is None:
        shutil.rmtree(root / FOLDER / _STAGED, ignore_errors=True)
        return ""
    for entry in journal.files:
        now = sha256((root / entry.path).read_bytes()) if (root / entry.path).is_file() else "gone"
        if now not in (entry.before, entry.after):
            raise UsageError(
                f"{entry.path} was changed after `graphcheck patch {journal.verb}` was"
                " interrupted.",
                f"Restore it with your version control, or remove {root / FOLDER / _JOURNAL} to"
                " leave everything as it is now. Nothing was changed.",
            )
    with _writing(root):
        _carry_out(root, journal)
    return journal.verb


def commit(root: Path, verb: str, changes: Sequence[Change], manifest: Manifest) -> None:
    """Make all changes and write the manifest, or change nothing. Call it with the lock.

    Raises UsageError when the tree cannot be written.
    """
    with _writing(root):
        for change in changes:
            _must_be_writable(root, root / change.path)
        _stage(root, changes)
        entries = tuple(_Entry(c.path, sha256(c.before), sha256(c.after)) for c in changes)
        journal = _Journal(verb, entries, manifest)
        write_atomic(root / FOLDER / _JOURNAL, msgspec.json.encode(journal))
    try:
        _carry_out(root, journal)
    except OSError as error:
        _undo(root, changes)
        raise _unwritable(root, error) from error


def _stage(root: Path, changes: Sequence[Change]) -> None:
    for folder in (_STAGED, "originals"):
        (root / FOLDER / folder).mkdir(parents=True, exist_ok=True)
    ignore = root / FOLDER / ".gitignore"
    if not ignore.exists():
        write_atomic(ignore, "*\n")
    for change in changes:
        keep = original_path(root, sha256(change.before))
        if not keep.exists():
            write_atomic(keep, change.before)
        write_atomic(root / FOLDER / _STAGED / sha256(change.after), change.after)


def _carry_out(root: Path, journal: _Journal) -> None:
    """Do what the journal says. Doing it again changes nothing."""
    for entry in journal.files:
        path = root / entry.path
        if sha256(path.read_bytes()) != entry.after:
            _replace(path, (root / FOLDER / _STAGED / entry.after).read_bytes())
    write_atomic(manifest_path(root), journal.manifest.encoded())
    (root / FOLDER / _JOURNAL).unlink()
    _clean(root, journal.manifest)


def _replace(path: Path, data: bytes) -> None:
    write_atomic(path, data)


def _undo(root: Path, changes: Sequence[Change]) -> None:
    for change in changes:
        if (root / change.path).read_bytes() != change.before:
            write_atomic(root / change.path, change.before)
    (root / FOLDER / _JOURNAL).unlink(missing_ok=True)
    _clean(root, read_manifest(root))


def _clean(root: Path, manifest: Manifest) -> None:
    """Remove what nothing needs any more, in the end the whole folder."""
    shutil.rmtree(root / FOLDER / _STAGED, ignore_errors=True)
    if not manifest.files:
        shutil.rmtree(root / FOLDER, ignore_errors=True)
        return
    needed = {record.before for record in manifest.files}
    for path in (root / FOLDER / "originals").iterdir():
        if path.name not in needed:
            path.unlink(missing_ok=True)


def _read_journal(root: Path) -> _Journal | None:
    path = root / FOLDER / _JOURNAL
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Journal)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"the journal {path} cannot be read: {' '.join(str(error).split())}.",
            "Restore the tree with your version control and remove that file.",
        ) from error


def _must_be_writable(root: Path, path: Path) -> None:
    # A rename needs the folder only, but a file that is read-only was meant to stay as it is.
    for place in (path, path.parent):
        if not os.access(place, os.W_OK):
            raise PermissionError(13, "Permission denied", str(place))


@contextlib.contextmanager
def _writing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError, UsageError):
            if not (root / FOLDER / _JOURNAL).exists():
                _clean(root, read_manifest(root))
        raise _unwritable(root, error) from error


def _unwritable(root: Path, error: OSError) -> UsageError:
    where = error.filename or root
    return UsageError(
        f"the source tree cannot be written: {where}: {error.strerror}.",
        "Make the tree writable, or work on a copy of it. Nothing was changed.",
    )
