"""GC009: an input of forward is not a tensor."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC009",
    name="input-not-a-tensor",
    severity=Severity.ERROR,
    summary="An input of forward is not a tensor.",
    explanation="""\
The runtime's method takes tensors. A number, string, bool, None, NumPy array or object among the
inputs would be frozen into the graph, and the joint graph cannot be captured with one.

Bind such an argument when the model is built (an attribute, or `functools.partial`), give it a
default and leave it out, or pass it as a tensor. Models that take lists of images and dictionaries
of targets (torchvision's detection models) cannot be trained this way.
""",
    example="""\
def forward(self, x, mode):      # GC009 when called with mode="train"
    ...

class Net(nn.Module):
    def __init__(self, mode="train"): ...   # bound once
    def forward(self, x): ...
""",
)
