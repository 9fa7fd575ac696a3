"""GC005: the loss is not a scalar."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC005",
    name="loss-not-scalar",
    severity=Severity.ERROR,
    summary="The loss is not a scalar.",
    explanation="""\
Training differentiates output 0 of `forward`, so this must be one floating-point number: a tensor
with no dims. Here it has dims, is an integer, or is no tensor at all. Usual reasons: the loss has
`reduction="none"`, or `forward` returns predictions and the loss is computed elsewhere.

Reduce the loss (`.mean()`), or let graphcheck add one with `--loss cross_entropy`, or offer
`get_loss()` and `get_example_targets()` in the model file.
""",
    example="""\
def forward(self, x, y):
    return F.mse_loss(self.net(x), y, reduction="none")   # GC005
    return F.mse_loss(self.net(x), y)                      # a scalar
""",
)
