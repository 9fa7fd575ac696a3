"""Places to write to, atomic writes and the cache folder."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from graphcheck.errors import DeviceError, UsageError
from graphcheck.spill import Buffer

__all__ = [
    "cache_dir",
    "check_cache",
    "check_place",
    "one_of",
    "refusal",
    "write_atomic",
    "write_set",
]


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `data` to `path`, or leave what was there: temporary file beside it, then rename.

    Raises OSError when the folder is missing or the disk is full.
    """
    write_set({path: data})


def write_set(files: Mapping[Path, Buffer | str]) -> None:
    """Write files that belong together: all are on the disk before the first takes its name.

    Raises OSError when a folder is missing or the disk is full; then all are as they were.
    """
    made: dict[Path, str] = {}
    try:
        for path, data in files.items():
            made[path] = _temporary(path, data.encode() if isinstance(data, str) else data)
        for path in files:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
            if path.exists() and not path.is_file():
                # A rename would put a file in the place of a device or a pipe.
                raise OSError(errno.EINVAL, "Not a regular file", str(path))
        for path in files:
            os.replace(made[path], path)
            del made[path]
    except BaseException:
        for temporary in made.values():
            Path(temporary).unlink(missing_ok=True)
        raise


def refusal(path: Path) -> str:
    """Why no file can be written at `path`, "" if one can: a temporary one is made and removed."""
    try:
        if path.exists() and not path.is_file():
            return "Not a regular file"
        Path(_temporary(path, b"")).unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def check_place(path: Path, option: str, reads: Iterable[object] = (), *, shown: str = "") -> None:
    """Refuse a file that cannot be written, before any work. Raises UsageError.

    `option` names the place on the command line, and `shown` is how messages call it. `reads` are
    options that name files to read: none of them may be written over.
    """
    shown = shown or str(path)
    other = f"Name another file with {option}."
    folder = path.absolute().parent
    read = one_of(path, reads)
    if read:
        raise UsageError(f"{shown} would be written over {read}, which is read.", other)
    if os.path.isdir(path):  # also of a name too long to ask for
        raise UsageError(f"{shown} is a folder.", f"Give the name of a file with {option}.")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{shown} cannot be written: {folder} is a file, not a folder.", other)
    if not os.path.isdir(folder):
        raise UsageError(
            f"{shown}: there is no folder {folder}.",
            f"Make it with `mkdir -p {folder}`, or name another place.",
        )
    # Permissions do not tell of a read-only disk, a folder of the kernel or a name too long.
    why = refusal(path)
    if why:
        raise UsageError(f"{shown} cannot be written: {why}.", other)


def one_of(path: Path, texts: Iterable[object]) -> str:
    """Which of the files that these texts name is the one at `path`; "" if none.

    A text names a file as options do: `FILE`, `FILE:name`, `FILE=more`.
    """
    for text in filter(None, map(str, texts)):
        for name in (text, text.rpartition(":")[0], text.rpartition("=")[0]):
            try:
                if name and os.path.isfile(name) and os.path.samefile(name, path):
                    return name
            except OSError:  # nothing is at `path`
                break
    return ""


def _temporary(path: Path, payload: Buffer) -> str:
    """A file beside `path` with this content, and the mode that `path` has or would have."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return temporary


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def cache_dir(*parts: str) -> Path:
    """A folder of the per-user cache, made if needed.

    `GRAPHCHECK_CACHE_DIR` moves the cache. Raises DeviceError when the folder cannot be made; one
    that is there may still be read-only (`check_cache`).
    """
    import platformdirs

    root = os.environ.get("GRAPHCHECK_CACHE_DIR") or platformdirs.user_cache_dir("graphcheck")
    folder = Path(root).joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_cache(folder, error) from None
    return folder


def check_cache(folder: Path) -> None:
    """Raises DeviceError when nothing can be written to this folder of the cache."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _no_cache(folder, error) from None


def _no_cache(folder: Path, error: OSError) -> DeviceError:
    return DeviceError(
        f"the cache folder {folder} cannot be written: {error.strerror or error}",
        "Set GRAPHCHECK_CACHE_DIR to a folder that you may write to.",
    )
