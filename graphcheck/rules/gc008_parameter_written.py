"""GC008: a parameter is written in forward."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC008",
    name="parameter-written",
    severity=Severity.ERROR,
    summary="A parameter is written in forward.",
    explanation="""\
An optimizer step is the only thing that may write a trainable parameter: the joint graph is a
function of the parameters, and an in-place change or a new value assigned in `forward` cannot be
part of it. Weight clipping, renormalisation (`nn.Embedding(max_norm=...)`) and moving averages of
weights do this.

Compute a changed copy and use it (`F.linear(x, self.weight.clamp(-1, 1))`, or
`torch.nn.utils.parametrize`), keep running values in buffers, or change the weights in the training
loop between steps.
""",
    example="""\
def forward(self, x):
    with torch.no_grad():
        self.fc.weight.clamp_(-1, 1)                      # GC008
    return self.fc(x)
    return F.linear(x, self.fc.weight.clamp(-1, 1), self.fc.bias)   # right
""",
)
