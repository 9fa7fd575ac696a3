"""Atomic writes and the cache folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["cache_dir", "write_atomic"]


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `data` to `path`, or leave what was there: temporary file beside it, then rename.

    Raises OSError when the folder is missing or the disk is full.
    """
    payload = data.encode() if isinstance(data, str) else data
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def cache_dir(*parts: str) -> Path:
    """A folder of the per-user cache, made if needed.

    `GRAPHCHECK_CACHE_DIR` moves the cache.
    """
    import platformdirs

    root = os.environ.get("GRAPHCHECK_CACHE_DIR") or platformdirs.user_cache_dir("graphcheck")
    folder = Path(root).joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
