"""GC002: example inputs are missing, or forward does not accept them."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC002",
    name="inputs-do-not-fit",
    severity=Severity.ERROR,
    summary="Example inputs are missing, or forward does not accept them.",
    explanation="""\
Tracing needs one set of example inputs, because the shapes and types of a training step are fixed
(but for a dynamic batch) when the model is exported. Either there are none, or their number does
not fit the arguments of `forward`, or their shapes or types do not fit an operator that `forward`
calls in ordinary eager PyTorch. (Any other exception that `forward` raises is GC014.)

Give one `--input` for each argument of `forward` (`float32[2,3,64,64]`, `int64[2]<10`,
`mask=bool[2,5]`), or add `get_example_inputs()` to the file. It returns a tensor, a tuple of
positional or a dict of keyword arguments.
""",
    example="""\
def get_example_inputs():
    return torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
""",
)
