"""GC003: the model could not be exported."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC003",
    name="not-exported",
    severity=Severity.ERROR,
    summary="The model could not be exported.",
    explanation="""\
`torch.export` records the forward pass as a graph of operators, without running it on data. The
model runs in eager PyTorch but something in it cannot be recorded: a conversion to NumPy or to a
Python number, an operator whose output shape depends on data (CTC loss), a dim that was declared
dynamic but is fixed by the code, a C++ extension without shape rules.

Replace the named line by tensor operators, or move it out of `forward`.
""",
    example="""\
def forward(self, x):
    x = torch.from_numpy(np.log(x.numpy()))   # GC003
    x = x.log()                                # recorded
""",
)
