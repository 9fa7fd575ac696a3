"""Broken models and what is told of them, for the tests of the diagnosis."""

from __future__ import annotations

from pathlib import Path

import broken_models
import pytest
import torch

from graphcheck.errors import ModelError
from graphcheck.graph.capture import trace
from graphcheck.workload.types import Workload

__all__ = ["HERE", "X", "failure", "place", "workload"]

HERE = Path(__file__).parent
X = torch.linspace(-1, 1, 32).reshape(4, 8)


def place(name: str, code: str) -> str:
    """`broken_models.py:12 `code`` of the first such line in class `name`."""
    lines = (HERE / "broken_models.py").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"class {name}("))
    line = next(i for i in range(start, len(lines)) if lines[i].strip() == code)
    return f"broken_models.py:{line + 1} `{code}`"


def workload(name: str, *inputs: object, **options: object) -> Workload:
    torch.manual_seed(0)
    module = getattr(broken_models, name)()
    return Workload(module, inputs or (X,), root_type=name, target=name, **options)  # type: ignore


def failure(name: str, *inputs: object, **options: object) -> ModelError:
    with pytest.raises(ModelError) as caught:
        trace(workload(name, *inputs, **options))
    return caught.value
