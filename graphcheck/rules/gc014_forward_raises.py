"""GC014: forward raises an error of its own."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC014",
    name="forward-raises",
    severity=Severity.ERROR,
    summary="forward raises an error of its own.",
    explanation="""\
Before anything is traced, `forward` is called once in ordinary eager PyTorch, and an exception
ends the check. Where shapes or types of tensors do not fit an operator of torch, that is GC002:
other example inputs help. Any other exception comes from the model's own code: a `raise`, an
attribute or a key that is not there, a call with wrong arguments. The message names the line.

Mend the line, or what the model is built with. Where the model refuses what it is given in words of
its own, give other example inputs (`--input`, or `get_example_inputs()` in the file).
""",
    example="""\
if self.mode not in ("bilinear", "nearest"):
    raise ValueError(f"no such mode: {self.mode}")
""",
)
