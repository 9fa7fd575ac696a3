"""GC010: modules are kept in a plain Python list, tuple, set or dict."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC010",
    name="hidden-modules",
    severity=Severity.ERROR,
    summary="Modules are kept in a plain Python list, tuple, set or dict.",
    explanation="""\
`nn.Module` finds its submodules among its attributes. Modules inside a plain Python container are
not found: `parameters()` does not list theirs, an optimizer does not train them, `state_dict()`
does not save them, and export freezes their weights into the graph as constants. Nothing fails and
the loss may even fall, because the other layers learn.

Use `nn.ModuleList` or `nn.ModuleDict` (for parameters `nn.ParameterList`, `nn.ParameterDict`).
""",
    example="""\
self.blocks = [Block() for _ in range(4)]                  # GC010
self.blocks = nn.ModuleList(Block() for _ in range(4))     # registered
""",
)
