"""Calling forward: an error is of the inputs, or of the model's own code, and is told as such."""

from __future__ import annotations

import contextlib
import dis
import linecache
import os
import re
from collections.abc import Iterator
from types import TracebackType

from graphcheck.workload.user_code import is_out_of_memory, running_user_code

__all__ = ["is_mismatch", "running_forward"]

_FAILED = "forward failed on the example inputs"
_OF_TORCH = (RuntimeError, IndexError, NotImplementedError)
"""What operators of torch raise, without a frame of their own."""
_IN_TORCH = (*_OF_TORCH, ValueError, AssertionError)
"""What the Python code of torch raises besides."""
_SHAPE = re.compile(
    r"\b(?:shapes?|sizes?|dims?|dimensions?|channels?|batch_size|\dD)\b|expected\b.*\bgot\b", re.I
)
_TYPE = re.compile(
    r"\b(?:dtype|scalar types?|Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double|Bool)\b"
    r"|\bbool tensor\b|while checking arguments"
)
_RANGE = re.compile(r"^(?!(?:list|tuple|string) ).*\bout of (?:range|bounds)\b")


@contextlib.contextmanager
def running_forward(what: str = _FAILED, *, hint: str = "", folder: str = "") -> Iterator[None]:
    """Turn everything but KeyboardInterrupt that the block raises into a ModelError.

    It is GC002 with `hint` where shapes or types of tensors do not fit an operator of torch, and
    GC014 where the model's own code raises.
    """
    try:
        yield
    except BaseException as error:
        if is_mismatch(error) or is_out_of_memory(error):
            told = running_user_code(what, hint=hint, code="GC002", folder=folder)
        else:
            told = running_user_code(
                what if isinstance(error, SystemExit) else "forward raised an error of its own",
                hint="The model's own code raises it, in ordinary PyTorch, too: mend it there.",
                code="GC014",
                folder=folder,
            )
        with told:
            raise


def is_mismatch(error: BaseException) -> bool:
    """Whether shapes, types or indices of tensors do not fit where torch was given them."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    file = trace.tb_frame.f_code.co_filename
    if f"{os.sep}torch{os.sep}" in file:
        raised = isinstance(error, _IN_TORCH)
    else:
        raised = isinstance(error, _OF_TORCH) and not _is_raise(trace)
    text = str(error)
    if isinstance(error, ValueError) and "values to unpack" in text:
        # `batch, channels, height, width = x.shape`
        return bool(re.search(r"\b(?:shape|size\()", linecache.getline(file, trace.tb_lineno)))
    shape = _SHAPE.search(text) and re.search(r"\d", text)
    return raised and bool(shape or _TYPE.search(text) or _RANGE.search(text))


def _is_raise(trace: TracebackType) -> bool:
    """Whether a `raise` or `assert` statement is where the error comes from."""
    code = trace.tb_frame.f_code.co_code
    return dis.opname[code[trace.tb_lasti]] == "RAISE_VARARGS"
