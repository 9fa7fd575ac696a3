"""The child side of `graphcheck.process.run_worker`."""

from __future__ import annotations

import base64
import faulthandler
import gc
import importlib
import os
import sys
import traceback

import msgspec

from graphcheck.errors import GraphcheckError, ModelError
from graphcheck.process import WHERE_SIGNAL

__all__ = ["main", "progress"]

_reply_fd: int | None = None


def progress(stage: str) -> None:
    """Tell the parent what is being done now; does nothing outside a worker."""
    if _reply_fd is not None:
        _send(b"progress", " ".join(stage.split()).encode())


def _send(kind: bytes, payload: bytes) -> None:
    assert _reply_fd is not None
    data = kind + b" " + payload + b"\n"
    while data:
        data = data[os.write(_reply_fd, data) :]


def main(task: str, request_fd: int, reply_fd: int) -> int:
    """Run one task; the answer goes to `reply_fd`."""
    global _reply_fd
    _reply_fd = reply_fd
    if hasattr(faulthandler, "register"):
        # At a time-out the parent asks where the task is; `process._where` reads the answer.
        faulthandler.register(WHERE_SIGNAL, file=reply_fd, all_threads=True, chain=False)
    # A program that the task starts must not keep the parent waiting.
    os.set_inheritable(reply_fd, False)
    with os.fdopen(request_fd, "rb") as stream:
        request = msgspec.json.decode(stream.read())
    module, _, function = task.partition(":")
    try:
        reply = getattr(importlib.import_module(module), function)(request)
        # JSON would turn NaN and infinity into null.
        payload = base64.b64encode(msgspec.msgpack.encode(reply))
    except GraphcheckError as error:
        _send(
            b"error",
            msgspec.json.encode(
                {
                    "type": _known_type(error),
                    "message": error.message,
                    "hint": error.hint,
                    "code": error.code if isinstance(error, ModelError) else "",
                }
            ),
        )
        return 1
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        text = traceback.format_exception_only(error)[-1].strip()
        _send(
            b"error",
            msgspec.json.encode({"type": type(error).__name__, "message": text, "hint": ""}),
        )
        return 1
    _send(b"reply", payload)
    return 0


def _known_type(error: GraphcheckError) -> str:
    """The class of `graphcheck.errors` that it is; other rooms have subclasses of their own."""
    return next(
        kind.__name__
        for kind in type(error).__mro__
        if kind.__module__ == GraphcheckError.__module__
    )


if __name__ == "__main__":
    # Capture and lowering make millions of objects that live on: fewer searches for garbage save
    # an eighth of their time.
    gc.set_threshold(50_000, 20, 10)
    # The module runs as `__main__`; hand over to the importable one, so that `progress` is shared.
    from graphcheck import worker

    code = worker.main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Skip interpreter shutdown: the answer is out, and tearing torch down costs time.
    os._exit(code)
