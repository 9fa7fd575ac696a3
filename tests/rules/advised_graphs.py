"""Hand-made op calls and advisories' answers for the tests of GC3 and GC4."""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.load import all_advisories
from graphcheck.advisory.types import ProbeResult
from graphcheck.graph.types import JointGraph, OpCall, Source, TensorFact
from graphcheck.opset.types import Opset
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding

__all__ = ["call", "check", "context", "graph", "tensor"]


def tensor(dtype: str, *shape: int | str, channels_last: bool = False) -> TensorFact:
    order = tuple(range(len(shape)))
    if channels_last:
        order = (0, *range(2, len(shape)), 1)
    return TensorFact(dtype, shape, (1,) * len(shape), order)


def call(
    op: str,
    overload: str,
    out_variant: str,
    arguments: dict[str, Any],
    *outputs: TensorFact,
    reaches: bool = True,
    node: str = "node",
    module: str = "m",
) -> OpCall:
    return OpCall(
        index=0,
        node=node,
        op=op,
        overload=overload,
        arguments=arguments,
        outputs=outputs,
        source=Source(module=module, file="model.py", line=3),
        backward=False,
        gradients=("a.weight",) if reaches else (),
        out_variant=out_variant,
    )


def graph(*calls: OpCall, **parts: Any) -> JointGraph:
    values: dict[str, Any] = {
        "calls": calls,
        "parameters": (),
        "buffers": (),
        "inputs": (),
        "loss": None,
        **parts,
    }
    return JointGraph(**values)


def context(
    outcome: str = "wrong",
    *,
    version: str = "1.5.1",
    probed: str = "1.5.1",
    detail: str = "",
    own: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> Context:
    """All advisories, each answered alike; the opset has their kernels but those of `without`."""
    advisories = all_advisories()
    kernels = frozenset(kernel for a in advisories for kernel in a.kernels) - without
    probes = {
        a.id: ProbeResult(
            a.id, outcome, "2 for 1" if outcome != "not run" else "", detail, "b", probed
        )
        for a in advisories
    }
    if outcome == "none":
        probes = {}
    opset = Opset("executorch", version, "test", kernels, extra=own)
    return Context(opset, advisories, probes)


def check(rule: Rule, graph: JointGraph, context: Context) -> list[Finding]:
    return list(rule.check(graph, context))
