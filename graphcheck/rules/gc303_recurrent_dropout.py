"""GC303: the dropout between the layers of a recurrent module is lost."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for lost in graph.lost_dropout:
        reached = next((call.gradients for call in graph.calls if call.node == lost.node), ())
        yield Finding(
            code=RULE.code,
            severity=Severity.ERROR,
            subject=lost.op,
            message=(
                f"loses its dropout of {lost.p:g} between the layers in torch's own decomposition: "
                "the program trains as if in eval mode"
            ),
            source=lost.source,
            module=lost.source.module,
            modules=(lost.source.module,),
            evidence=("no random operator of the joint graph comes from it",),
            mends=(
                Mend(
                    "rewrite",
                    f"{lost.op.removeprefix('aten.')}_dropout",
                    "one layer at a time, with the dropout between them",
                    True,
                    "graphcheck export",
                ),
            ),
            gradients=reached,
            nodes=(lost.node,),
        )


RULE = Rule(
    code="GC303",
    name="recurrent-dropout-lost",
    severity=Severity.ERROR,
    summary="nn.LSTM, nn.GRU or nn.RNN loses the dropout between its layers.",
    explanation=(
        "The dropout is an argument of the recurrent operator. The joint export takes that "
        "operator apart, and a slip in torch's decomposition (2.14: `num_layers < i - 1`, which "
        "never holds) leaves the dropout out. Nothing fails; the program computes what the module "
        "does in eval mode, and so trains without the regularisation.\n"
        "The finding is taken from the graph: an operator with dropout in the exported program "
        "from which no random operator has come. A torch that keeps it is silent.\n"
        "`graphcheck export` computes one layer at a time with the dropout between them, as eager "
        "PyTorch does."
    ),
    example="nn.LSTM(8, 16, num_layers=2, dropout=0.5)",
    check=check,
)
