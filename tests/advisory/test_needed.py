"""Only advisories that concern the graph are worth a probe."""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.needed import needed
from graphcheck.graph.types import BufferFact, JointGraph, OpCall, ParameterFact, Source, TensorFact


def graph(*calls: OpCall, **parts: Any) -> JointGraph:
    values: dict[str, Any] = {"parameters": (), "buffers": (), "inputs": (), "loss": None, **parts}
    return JointGraph(calls=calls, **values)


def layer_norm(dtype: str, size: int) -> OpCall:
    x = TensorFact(dtype, (2, size), (size, 1), (0, 1))
    arguments = {"input": x, "normalized_shape": [size]}
    return OpCall(0, "n", "aten.native_layer_norm", "default", arguments, (x,), Source(), False)


def test_ops_are_looked_at_with_their_arguments() -> None:
    assert needed(graph()) == ()
    assert needed(graph(layer_norm("float32", 64))) == ("GCA-2026-0004",)
    assert needed(graph(layer_norm("float32", 768))) == ()
    assert needed(graph(layer_norm("bfloat16", 768))) == ("GCA-2026-0017",)


def test_mutated_buffers_and_half_precision_parameters() -> None:
    buffer = BufferFact("seen", "float32", (), True)
    assert needed(graph(buffers=(buffer,))) == ("GCA-2026-0015", "GCA-2026-0016")
    for dtype, ids in (("bfloat16", ("GCA-2026-0014",)), ("float32", ())):
        parameter = ParameterFact("w", dtype, (2,), True, True)
        assert needed(graph(parameters=(parameter,))) == ids
