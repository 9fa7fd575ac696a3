"""`memory` and `oplist` of a model: it is lowered as for export, and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphcheck.cli.main import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "cifar_cnn.py"


@pytest.fixture
def no_probes():
    """Here probes decide what is rewritten; what they said on this machine before counts."""


def test_memory_of_a_model(capsys):
    pytest.importorskip("executorch")
    assert run(["memory", str(EXAMPLE), "--output-format", "json"]) == 0
    body = json.loads(capsys.readouterr().out)
    program, inference = body["program"], body["inference"]
    assert body["training"]
    assert program["weights"] == program["gradients"] == inference["constants"]
    assert program["peak"] <= program["arena"]
    assert program["arena"] > inference["arena"] > 0
    assert "net.conv1" in {big["module"] for big in program["largest"]}
    (rewrite,) = body["rewrites"]
    assert rewrite["name"] == "max_pool2d_backward_scatter"
    # Two pools, each with zeros of the size of its input and a sum on them.
    assert rewrite["instructions"] == 4
    assert 0 < rewrite["adds"] < rewrite["written"]
    assert body["without_rewrites"] > 0
    assert [entry["what"] for entry in body["not_checked"]] == [
        "memory that kernels take for themselves"
    ]
