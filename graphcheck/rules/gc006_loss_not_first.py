"""GC006: the loss is not output 0, or another output carries gradients."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC006",
    name="loss-not-first",
    severity=Severity.ERROR,
    summary="The loss is not output 0, or another output carries gradients.",
    explanation="""\
The joint forward and backward graph differentiates output 0 and nothing else. When the loss comes
second, the wrong tensor would be differentiated; when another output still requires a gradient, it
is not clear which one is the loss, and capture refuses it.

Return the loss first and detach everything else. The order counts after nested outputs are
flattened; a dict is flattened in the order of its keys.
""",
    example="""\
return logits, loss             # GC006
return loss, logits             # GC006: logits still carry gradients
return loss, logits.detach()    # right
""",
)
