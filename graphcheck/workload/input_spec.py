"""Input specifications: `float32[2,3,64,64]`, `int64[2]<10`, `mask=bool[2,5]`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from graphcheck.errors import UsageError

__all__ = ["DTYPES", "InputSpec", "make_tensor", "parse_input"]

DTYPES = {
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float64": "float64",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "bool": "bool",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}
"""Names a user may write, and torch's own name."""

_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int8": 1, "uint8": 1, "bool": 1}
_HIGHEST = {"int8": 2**7, "uint8": 2**8, "int16": 2**15, "int32": 2**31, "int64": 2**63 - 1}
_DEFAULT_HIGH = {"uint8": 256}
_MAX_BYTES = 4 * 2**30
# ExecuTorch's kTensorDimensionLimit.
_MAX_RANK = 16
_FORM = re.compile(
    r"(?:(?P<name>[^\W\d]\w*)\s*=)?\s*(?P<dtype>\w+)\s*\[(?P<shape>[^\[\]]*)\]\s*"
    r"(?:<\s*(?P<high>[^<]*))?",
    re.ASCII,
)
_EXAMPLE = "Write it like 'float32[2,3,64,64]', 'int64[2]<10' or 'mask=bool[2,5]'."


@dataclass(frozen=True)
class InputSpec:
    """A tensor to make up: `high` is the exclusive bound of an integer type, None if not said.

    `name` is the keyword argument of forward, "" for a positional one.
    """

    dtype: str
    shape: tuple[int, ...]
    high: int | None = None
    name: str = ""

    def __str__(self) -> str:
        name = f"{self.name}=" if self.name else ""
        bound = "" if self.high is None else f"<{self.high}"
        return f"{name}{self.dtype}[{','.join(map(str, self.shape))}]{bound}"


def parse_input(text: str) -> InputSpec:
    """Read one specification. Raises UsageError saying what is wrong with it."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not an input specification.", _EXAMPLE)
    dtype = DTYPES.get(found["dtype"])
    if dtype is None:
        known = ", ".join(dict.fromkeys(DTYPES.values()))
        raise UsageError(f"{text!r} has an unknown type {found['dtype']!r}.", f"Known: {known}.")
    shape = _sizes(text, found["shape"])
    if math.prod(shape) * _BYTES.get(dtype, 2) > _MAX_BYTES:
        raise UsageError(
            f"{text!r} is a tensor of more than 4 GiB.",
            "Example inputs only have to be large enough for the model to run.",
        )
    high = None if found["high"] is None else _bound(text, found["high"], dtype)
    return InputSpec(dtype, shape, high, found["name"] or "")


def _sizes(text: str, listed: str) -> tuple[int, ...]:
    if not listed.strip():
        return ()
    sizes = []
    for part in listed.split(","):
        part = part.strip()
        if not (part.isascii() and part.isdigit()) or len(part) > 12 or int(part) < 1:
            raise UsageError(
                f"{text!r} has a size {part!r}; a size is a whole number of at least 1.", _EXAMPLE
            )
        sizes.append(int(part))
    if len(sizes) > _MAX_RANK:
        raise UsageError(
            f"{text!r} has {len(sizes)} dims; ExecuTorch has at most {_MAX_RANK}.",
            "Give the shape of a tensor that the model takes, such as float32[2,3,64,64].",
        )
    return tuple(sizes)


def _bound(text: str, written: str, dtype: str) -> int:
    written = written.strip()
    if dtype not in _HIGHEST:
        raise UsageError(
            f"{text!r} has a bound, but only integer inputs can have one.",
            "Leave out the '<...>'; floating-point inputs are drawn from a normal distribution.",
        )
    highest = _HIGHEST[dtype]
    if not (written.isascii() and written.isdigit()) or len(written) > 19:
        raise UsageError(f"{text!r} has a bound {written!r} that is not a whole number.", _EXAMPLE)
    if not 1 <= int(written) <= highest:
        raise UsageError(
            f"{text!r} has a bound {written}; for {dtype} it is from 1 to {highest}.", _EXAMPLE
        )
    return int(written)


def make_tensor(spec: InputSpec, seed: int) -> Any:
    """A tensor of this specification; the same for the same seed.

    Floats are standard normal, integers uniform below the bound (2 if none was said, 256 for
    uint8), bools fair coins.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, spec.dtype)
    if spec.dtype == "bool":
        return torch.randint(0, 2, spec.shape, generator=generator, dtype=torch.uint8).bool()
    if spec.dtype in _HIGHEST:
        high = spec.high if spec.high is not None else _DEFAULT_HIGH.get(spec.dtype, 2)
        return torch.randint(0, high, spec.shape, generator=generator, dtype=torch.int64).to(dtype)
    return torch.randn(spec.shape, generator=generator, dtype=torch.float32).to(dtype)
