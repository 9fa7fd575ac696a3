"""GC601: another module in place of one whose ops are missing, refused or wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphcheck.graph.types import JointGraph
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE", "SUGGESTIONS", "Suggestion"]


@dataclass(frozen=True)
class Suggestion:
    """A module that trains on the stock runtime; `exact` when it computes the same function."""

    swap: str
    into: str
    exact: bool
    remark: str


_GROUP_NORM = Suggestion(
    "batchnorm-to-groupnorm",
    "nn.GroupNorm",
    False,
    "another function: normalises each sample by itself; needs training from there on",
)
_FROZEN_NORM = Suggestion(
    "freeze-batchnorm",
    "BatchNorm in eval mode",
    False,
    "statistics stay as they are, scale and shift still train; usual for fine-tuning",
)
_CONV1D = Suggestion("conv1d-to-conv2d", "nn.Conv2d with kernel (1, k)", True, "same weights")
_ATTENTION = Suggestion(
    "explicit-attention", "softmax(q @ k.T) @ v", True, "same result up to rounding"
)
_STRIDED = Suggestion(
    "maxpool-to-conv", "a strided nn.Conv2d", False, "another function, with weights of its own"
)

SUGGESTIONS: dict[str, tuple[Suggestion, ...]] = {
    "BatchNorm1d": (_GROUP_NORM, _FROZEN_NORM),
    "BatchNorm2d": (_GROUP_NORM, _FROZEN_NORM),
    "BatchNorm3d": (_GROUP_NORM, _FROZEN_NORM),
    "SyncBatchNorm": (_GROUP_NORM, _FROZEN_NORM),
    "Conv1d": (_CONV1D,),
    "MultiheadAttention": (_ATTENTION,),
    "MaxPool2d": (
        Suggestion(
            "maxpool-to-amax",
            "view + amax (kernel = stride)",
            False,
            "changes numerics: a tie shares its gradient",
        ),
        _STRIDED,
    ),
    "AvgPool2d": (
        Suggestion(
            "avgpool-to-mean", "view + mean (kernel = stride, no padding)", True, "same result"
        ),
    ),
    "Dropout2d": (Suggestion("dropout2d-to-mask", "a rand-made mask", True, "same distribution"),),
    "SiLU": (Suggestion("silu-to-sigmoid", "x * sigmoid(x)", True, "same result"),),
    "ZeroPad2d": (Suggestion("pad-to-cat", "torch.cat with zeros", True, "same result"),),
}
"""By the type of the module that a finding of GC1 to GC3 names."""


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for finding in context.found:
        if finding.family not in ("GC1", "GC2", "GC3") or finding.severity is Severity.NOTE:
            continue
        kind = finding.source.module_type
        for suggestion in SUGGESTIONS.get(kind, ()):
            exact = "exact" if suggestion.exact else "not exact"
            yield Finding(
                code=RULE.code,
                severity=Severity.NOTE,
                subject=kind,
                message=f"{suggestion.into} would do ({exact}: {suggestion.remark})",
                source=finding.source,
                mends=(Mend("swap", suggestion.swap, suggestion.into, suggestion.exact),),
            )


RULE = Rule(
    code="GC601",
    name="swap-suggestion",
    severity=Severity.NOTE,
    summary="Another module would train on this runtime.",
    explanation=(
        "For a module whose ops have no right kernel, the modules that do, each with whether it "
        "computes the same function. An exact graph rewrite, where there is one, keeps the module "
        "as it is and is named with the finding itself."
    ),
    example="nn.BatchNorm2d(64)  ->  nn.GroupNorm(32, 64)",
    check=check,
)
