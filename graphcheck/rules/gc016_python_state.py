"""GC016: a Python value that forward changes stays as it was."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC016",
    name="python-state-frozen",
    severity=Severity.ERROR,
    summary="A Python value that forward changes is a constant of the program.",
    explanation="""\
The graph is made of tensors. A counter that forward raises, a hidden state that it keeps in an
ordinary attribute, a list that it appends to, a global (`global STEP; STEP += 1`) or an attribute
of a class (`Net.count += 1`) is read once, while the model is traced, and never changes on the
device. Nothing fails; from the second step on the program computes something else than eager
PyTorch.

The finding is measured: the loss and the gradients of a step with what the step before it has left
are compared with those of the first step, and for numbers that are counted those of 3, 9, 99 and
1000 steps later, too. State in iterators and in closures' numbers is not seen.
Values that are only kept to be looked at (an attention map, a log) are not reported.

Draws of Python's `random` or of NumPy's generators are constants in the same way, also those of a
generator that the model or its file keeps (`self.rng = numpy.random.default_rng(0)`). They are told
where passes that differ in nothing but those draws differ in a gradient or in the loss. Several
seeds are tried, and, where forward is seen to draw, numbers close to 0 and to 1, so that a layer
that is left out with a small probability is found. What depends on one rare number in the middle
may be missed. The line is that of the first draw.

Keep the value in a buffer, which the program writes back at every step, or give it to forward as an
input, so that the app keeps it.
""",
    example="""\
self.count += 1                        # GC016: stays 0, or what it was while tracing
self.register_buffer("count", torch.tensor(0.0))   # in __init__: kept from step to step
""",
)
