"""A unified diff of bytes, in the form that `git apply` takes."""

from __future__ import annotations

import difflib

__all__ = ["unified_diff"]


def unified_diff(path: str, before: bytes, after: bytes) -> bytes:
    """The diff of one file, or nothing. Line ends and a missing last one are told exactly."""
    if before == after:
        return b""
    old, new = _lines(before), _lines(after)
    out = [f"diff --git a/{path} b/{path}\n".encode()]
    names = (f"a/{path}".encode(), f"b/{path}".encode())
    for line in difflib.diff_bytes(difflib.unified_diff, old, new, *names, lineterm=b"\n"):
        out.append(line)
        if not line.endswith(b"\n"):
            out.append(b"\n\\ No newline at end of file\n")
    return b"".join(out)


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
