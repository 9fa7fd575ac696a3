"""GC007: the loss does not depend on any trainable parameter."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC007",
    name="nothing-to-train",
    severity=Severity.ERROR,
    summary="The loss does not depend on any trainable parameter.",
    explanation="""\
There is nothing a training step could change. Either the model has no parameter with
`requires_grad=True`, or the way from every parameter to the loss is cut: by `.detach()`,
`torch.no_grad()`, `.data`, an integer conversion, `argmax`, or because the layers are hidden in a
plain Python list (GC010).

Unfreeze what is to be trained, and remove the cut.
""",
    example="""\
def forward(self, x, y):
    with torch.no_grad():                      # GC007
        return F.mse_loss(self.net(x), y)
""",
)
