"""The fine-tuning example, with a smaller model of the same parts and a few steps."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn
from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

ROOT = Path(__file__).parents[1]

pytest.importorskip("executorch")
pytest.importorskip("sklearn")


def small_model() -> nn.Module:
    """The first block of MobileNetV3 (squeeze and excite, hardswish), batch norm and dropout."""
    torch.manual_seed(0)
    block = InvertedResidualConfig(16, 3, 16, 16, True, "HS", 2, 1, 1.0)
    norm = functools.partial(nn.BatchNorm2d, eps=1e-3, momentum=0.1)
    return MobileNetV3([block], last_channel=32, num_classes=10, norm_layer=norm)


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits", ROOT / "examples/finetune/digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_device_and_eager_learn_the_same(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "new_model", small_model)
    figures = example.main(steps=6, epochs=1, held_out=240)
    assert figures["device, before"] == pytest.approx(figures["on new data"], abs=1e-6)
    assert figures["device, first loss"] == pytest.approx(figures["eager, first loss"], rel=1e-4)
    assert figures["device, last loss"] == pytest.approx(figures["eager, last loss"], rel=1e-3)
    # It did train: by more than the two may differ.
    assert abs(figures["device, last loss"] - figures["device, first loss"]) > 0.01
    assert abs(figures["device, after"] - figures["eager, after"]) <= 0.01
