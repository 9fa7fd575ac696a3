"""GC011: the backward graph could not be captured."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC011",
    name="joint-not-captured",
    severity=Severity.ERROR,
    summary="The backward graph could not be captured.",
    explanation="""\
The forward pass could be exported, but differentiating it did not succeed: an operator has no
derivative, a custom `autograd.Function` does something in `backward` that cannot be recorded, or
the capture met a construction it does not support. The message carries torch's own words and the
user's line where one is known.

Replace the operator, or cut the gradient before it with `.detach()` if it needs none.
""",
    example="""\
def backward(ctx, grad):
    return torch.from_numpy(grad.numpy() * 2)   # GC011
    return grad * 2
""",
)
