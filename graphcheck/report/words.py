"""Small pieces of English that several formats share."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphcheck.counted import counted
from graphcheck.report.following import repeated
from graphcheck.report.order import count_by_severity, ordered
from graphcheck.report.types import Report
from graphcheck.rules.types import Finding, Severity

if TYPE_CHECKING:
    from graphcheck.validate.types import Divergence, Verdict

__all__ = [
    "counted",
    "divergence_sentence",
    "explain_command",
    "has_exact_mend",
    "headline",
    "location",
    "mend_label",
    "next_command",
    "number",
    "reach",
    "report_summary",
    "some_of",
    "verdict_summary",
    "versions_line",
]


def some_of(names: Sequence[str], shown: int) -> str:
    """`a, b and 3 more`"""
    if len(names) <= shown + 1:
        return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return f"{', '.join(names[:shown])} and {len(names) - shown} more"


def number(value: float) -> str:
    """Six digits, with `nan` and `inf` as words."""
    if math.isfinite(value):
        return f"{value:.6g}"
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def has_exact_mend(finding: Finding) -> bool:
    """Whether a mend keeps the function that is trained; these are marked `[*]`."""
    return any(mend.exact for mend in finding.mends)


def headline(finding: Finding) -> str:
    """`GC101 [*] aten.x has no portable kernel (x12, encoder.layers.*.pool)`"""
    star = " [*]" if has_exact_mend(finding) else ""
    # GC0 has no op: its subject is the kind of failure, not the start of a sentence.
    joint = ": " if finding.family == "GC0" else " "
    return f"{finding.code}{star} {finding.subject}{joint}{finding.message}{location(finding)}"


def location(finding: Finding) -> str:
    """` (x12, encoder.layers.*.pool)` with its leading space, "" when there is nothing to say."""
    times = f"x{finding.count}" if finding.count > 1 else ""
    # A model that could not be loaded has no place in its graph.
    module = "" if finding.family == "GC0" and finding.module == "forward" else finding.module
    where = ", ".join(part for part in (times, module) if part)
    return f" ({where})" if where else ""


def reach(finding: Finding, shown: int = 1) -> str:
    """`gradients of conv1.weight and 3 more`; "" when no gradient depends on the op."""
    if not finding.gradients:
        return ""
    noun = "gradient" if len(finding.gradients) == 1 else "gradients"
    return f"{noun} of {some_of(finding.gradients, shown)}"


def mend_label(*, exact: bool) -> str:
    """How a mend relates to the function that is trained."""
    return "exact" if exact else "changes the function"


def versions_line(versions: dict[str, str]) -> str:
    """`torch 2.14.1, executorch 1.5.1, opset executorch-1.5.1`; the known names first."""
    known = [name for name in ("torch", "executorch", "opset") if name in versions]
    rest = sorted(name for name in versions if name not in known)
    return ", ".join(f"{name} {versions[name]}" for name in (*known, *rest))


def explain_command(finding: Finding) -> str:
    """What to type for the whole story of a finding."""
    if finding.advisory:
        return f"graphcheck advisory show {finding.advisory}"
    return f"graphcheck rule {finding.code}"


def next_command(report: Report, again: str = "") -> str:
    """What to type after this report; `again` are the options to repeat after the target."""
    if report.next_command:
        return repeated(report.next_command, report.target, again)
    if report.findings:
        return explain_command(ordered(report.findings)[0])
    return repeated(f"graphcheck validate {shlex.quote(report.target)}", report.target, again)


def report_summary(report: Report) -> str:
    """The last line of a report, without the next command."""
    if report.failed:
        reasons = counted(sum(f.family == "GC0" for f in report.findings), "reason")
        return f"Could not check {report.target}: {reasons} above."
    counts = [
        counted(count, name) for name, count in count_by_severity(report.findings).items() if count
    ]
    size = f"{counted(report.ops, 'operator call')} ({report.backward_ops} of them backward)"
    parts = [f"Found {some_of(counts, 3)} in {size}" if counts else f"No problems in {size}"]
    bad = [f for f in report.findings if f.severity is not Severity.NOTE]
    mendable = sum(map(has_exact_mend, bad))
    if mendable:
        parts.append(f"{mendable} can be mended exactly [*]")
    if report.suppressed:
        parts.append(f"{len(report.suppressed)} suppressed")
    if report.not_checked:
        parts.append(f"{len(report.not_checked)} NOT CHECKED")
    return "; ".join(parts) + "."


def divergence_sentence(divergence: Divergence) -> str:
    """`step 1, loss: runtime 12211.5, eager 2.29 (error 5e+03, tolerance 0.0001)`"""
    what = (
        divergence.quantity
        if divergence.quantity == "loss"
        else f"gradient of {divergence.quantity}"
    )
    sizes = f"runtime {number(divergence.runtime)}, eager {number(divergence.eager)}"
    limits = f"error {divergence.error:.2g}, tolerance {divergence.tolerance:.2g}"
    return f"step {divergence.step}, {what}: {sizes} ({limits})"


def verdict_summary(verdict: Verdict) -> str:
    """The verdict word and its reason, the last line of a verdict without the next command."""
    reason = verdict.reason.strip()
    if reason and not reason.endswith((".", "!", "?")):
        reason += "."
    return f"{verdict.verdict}: {reason}" if reason else f"{verdict.verdict}."
