"""GC404: the loss is NaN or infinite on the example data."""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphcheck.graph.types import JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    facts = graph.example_facts.get(graph.loss.node) if graph.loss else None
    if facts is None or math.isfinite(facts["loss"]):
        return
    value, first = facts["loss"], facts["first"]
    call = next((call for call in graph.calls if call.node == first), None)
    if call is not None:
        line = " on this line" if call.source.line else ""
        where = f"; {value} is first made by {call.op}{line}"
    elif first in dict(graph.inputs):
        where = f"; the input {first} holds {value}"
    else:
        where = f"; a weight or buffer holds {value}"
    source = Source(module="forward") if call is None else call.source
    yield Finding(
        code=RULE.code,
        severity=Severity.ERROR,
        subject="loss",
        message=(
            f"is {value} on the example data in eager PyTorch itself: there is nothing to train, "
            f"and nothing to compare with{where}"
        ),
        source=source,
        module=source.module,
        modules=(source.module,),
    )


RULE = Rule(
    code="GC404",
    name="loss-not-finite",
    severity=Severity.ERROR,
    summary="The loss is NaN or infinite on the example data, in eager PyTorch itself.",
    explanation=(
        "The rule runs the forward graph once on the example inputs. A loss that is NaN or "
        "infinite before the first step has no gradient that could train anything, and a runtime "
        "that computes the same cannot be told from one that does not. The op is named that makes "
        "the first such value on the way to the loss.\n"
        "Where example inputs or targets were made up, they may be the cause: a logarithm of a "
        "negative number, a distribution that does not sum to 1, a label that masks all.\n"
        "What to do: give inputs and targets as the model gets them (get_example_inputs(), "
        "get_example_targets(), or `graphcheck validate --data FILE.npz`), or guard the op in the "
        "model."
    ),
    example="torch.log(x).mean()  # of example inputs around 0",
    check=check,
)
