"""GC105: lowering stops at sizes that depend on the data."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC105",
    name="not-lowered",
    severity=Severity.ERROR,
    summary="Lowering stops at a size or a number that depends on the data.",
    explanation=(
        "A size that only the data tell has a symbol in the graph and a largest value. to_edge "
        "cannot slice by a number read out of a tensor; to_executorch cannot plan memory for a "
        "size without an upper bound (`repeat_interleave` with a tensor of counts), and does not "
        "know the memory layout of a tensor that has such a size in another dim than the first. "
        "The last is mended by `graphcheck export`, which takes the layout that the tensor has "
        "unless it is empty; what is empty has no layout to get wrong.\n"
        "What to do in the other cases: compute with fixed sizes and a mask."
    ),
    example="h = h[:, : lengths.max().item()]  # h * (places < lengths.max()) is fixed",
)
