"""GC207: a matrix product over a size from the data that may be zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphcheck.graph.types import JointGraph, OpCall
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.kernels import kernel_finding, mends_for
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE"]

# The argument whose last dim is summed over.
_FACTORS = {"aten.mm": "self", "aten.bmm": "self"}


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    least = {fact.symbol: fact.least for fact in graph.from_data}
    if not least:
        return
    for call in graph.calls:
        size = _summed(call)
        if isinstance(size, str) and _smallest(size, least) == 0:
            mend = Mend(
                "rewrite",
                f"{call.op.removeprefix('aten.')}_not_empty",
                "one more entry of zero on each side",
                True,
                "graphcheck export",
            )
            yield kernel_finding(
                call,
                RULE.code,
                "leaves its result unwritten where nothing is selected: a gradient is then what "
                "was in memory before",
                ("measured on executorch 1.5.1: NaN, or the gradient of another step",),
                Severity.WARNING,
                (*mends_for(call, RULE.code), mend),
            )


def _summed(call: OpCall) -> int | str | None:
    factor = call.arguments.get(_FACTORS.get(call.op, ""))
    shape = getattr(factor, "shape", ())
    return shape[-1] if shape else None


def _smallest(size: str, least: Mapping[str, int]) -> int | None:
    """The size where each symbol from the data is smallest; None with other symbols."""
    import sympy  # type: ignore[import-untyped, unused-ignore]

    found = sympy.sympify(size, {name: sympy.Symbol(name) for name in least}).subs(least)
    return int(found) if found.is_Integer else None


RULE = Rule(
    code="GC207",
    name="empty-product",
    severity=Severity.WARNING,
    summary="A matrix product over a size from the data is wrong when that size is zero.",
    explanation=(
        "The gradient of a linear layer sums over its samples. Behind a selection "
        "(`layer(x[mask])`) their number depends on the data, and where nothing is selected the "
        "product has nothing to sum: its result is zero, and the kernel does not write it.\n"
        "What to do: `graphcheck export` gives both factors one more entry of zero, which is "
        "exact; or select behind the layer (`layer(x)[mask]`)."
    ),
    example="loss = F.cross_entropy(self.head(h[labels >= 0]), labels[labels >= 0])",
    check=check,
)
