"""GC004: Python control flow depends on the values of a tensor."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC004",
    name="data-dependent-control-flow",
    severity=Severity.ERROR,
    summary="Python control flow depends on the values of a tensor.",
    explanation="""\
An exported graph has no branches: an `if`, `while`, `assert` or loop bound that looks at the values
of a tensor cannot be recorded, since the values are not known while tracing. The same goes for
`.item()`, `int(tensor)` and `bool(tensor)`.

Use `torch.where` to choose by element, `torch.clamp` for limits, or decide from shapes, which are
known. A check of the data belongs in front of the model.
""",
    example="""\
def forward(self, x):
    y = self.layer(x)
    if y.mean() > 0:                       # GC004
        y = y * 2
    y = torch.where(y.mean() > 0, y * 2, y)   # recorded
""",
)
