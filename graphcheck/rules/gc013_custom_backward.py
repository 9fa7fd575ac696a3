"""GC013: The backward of a custom autograd.Function is lost."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC013",
    name="custom-backward-lost",
    severity=Severity.ERROR,
    summary="The backward of a custom autograd.Function is lost.",
    explanation="""\
`torch.export` records the operators of `Function.forward` and forgets the `backward` written for
it: the joint graph differentiates the recorded operators instead. For a straight-through estimator,
a gradient reversal or a clipped gradient this is another gradient, often zero, and nothing fails.

The finding is measured: the model's gradients in eager PyTorch are compared with those it has when
each custom function is replaced by its forward. A custom backward that equals what autograd
derives (to save memory, say) is not reported.

Write the function so that autograd derives the wanted gradient, usually with `.detach()`.
""",
    example="""\
y = RoundSTE.apply(x)                 # GC013: the gradient becomes zero
y = x + (x.round() - x).detach()      # the same value, and the gradient of x
""",
)
