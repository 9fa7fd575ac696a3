"""GC015: a hook on a gradient is lost."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC015",
    name="gradient-hook-lost",
    severity=Severity.ERROR,
    summary="A hook that changes a gradient is lost.",
    explanation="""\
The joint graph holds no hooks: not those of parameters (`register_hook`,
`register_post_accumulate_grad_hook`), not backward hooks of modules, not those that forward sets on
tensors. A hook that scales, clips or reverses a gradient works in eager PyTorch and is gone on the
device, and nothing fails.

The finding is measured: the model's gradients in eager PyTorch are compared with those it has
without its hooks. A hook that only looks (for a log, say) is not reported.

Change the gradient in the graph: `scale * x + (x - scale * x).detach()` has the value of x and
`scale` times its gradient, -1 for a reversal. What is done to the gradient of a parameter, such as
clipping, the app can do between the step and the optimizer.
""",
    example="""\
h.register_hook(lambda g: -g)         # GC015: the gradient keeps its sign
h = 2 * h.detach() - h                # the same value, and the gradient reversed
""",
)
