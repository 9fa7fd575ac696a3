"""What hypothesis draws for kernels: dtypes, layouts, and numbers from a seed."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = ["DTYPES", "SWEEP", "laid_out", "numbers", "seeds"]

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SWEEP = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
seeds = st.integers(0, 2**31)


def numbers(seed: int, *shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    """Numbers of a normal distribution, always the same for a seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def laid_out(tensor: torch.Tensor, last: bool) -> torch.Tensor:
    """The tensor channels-last where that is asked and there are four dims."""
    if last and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor.contiguous()
