"""What the rules on wrong and imprecise kernels (GC3, GC4) share: the calls, what is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from graphcheck.advisory.needed import applies
from graphcheck.advisory.ranges import in_range
from graphcheck.advisory.types import Advisory, ProbeResult
from graphcheck.graph.types import JointGraph, OpCall
from graphcheck.opset.types import Grade
from graphcheck.rules.interface import Context
from graphcheck.rules.kernels import kernel_finding, supports
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = [
    "advised_calls",
    "advised_finding",
    "as_known",
    "evidence_of",
    "is_disagreement",
    "is_silent",
    "runtime_of",
    "severity_of",
    "standing",
]

_STOPS = (Grade.MISSING, Grade.NO_OUT_VARIANT, Grade.NOT_CORE, Grade.REFUSED)


def advised_calls(
    graph: JointGraph, context: Context, rule: str, *, own: bool = False
) -> Iterator[tuple[OpCall, Advisory]]:
    """Calls that advisories of `rule` concern, with the advisory.

    A call that never runs (no kernel, refused arguments) is left to the rules on kernels. With
    `own`, only calls that the user's own kernel library runs; without, all others.
    """
    advisories = [advisory for advisory in context.advisories if advisory.rule == rule]
    ops = {op for advisory in advisories for op in advisory.ops}
    if not any(call.op in ops for call in graph.calls):
        return
    for call, found in supports(graph, context.opset):
        if call.op not in ops or found.grade in _STOPS:
            continue
        if (found.grade is Grade.NOT_CHECKED) is not own:
            continue
        for advisory in advisories:
            if applies(advisory, call):
                yield call, advisory


def standing(advisory: Advisory, context: Context) -> tuple[str, str]:
    """What is known of an advisory on this runtime, and the evidence in words.

    `wrong` or `right` when its probe ran, or when another release was measured for the advisory;
    otherwise `likely` (the version is in the affected range), `fixed` (it is past the fix), or
    `unknown`.
    """
    result = context.probes.get(advisory.id)
    version = context.opset.version
    if (foreign := _other_implementation(advisory, context)) is not None:
        return foreign
    # A probe speaks of the installed runtime alone.
    elsewhere = result is not None and result.version and not _same(result.version, version)
    if result is not None and result.outcome in ("wrong", "right") and not elsewhere:
        told = f"{advisory.id}, measured here: {result.figure}"
        if in_range(advisory, version) is not None and is_disagreement(advisory, result, version):
            told += f" (its version range, {advisory.affected}, says otherwise; the probe counts)"
        return result.outcome, told
    seen = advisory.seen_on(version)
    if elsewhere and seen is not None:
        told = f"measured on executorch {seen.version} for this advisory, NOT on this machine"
        return seen.outcome, f"{advisory.id}, {told}"
    inside = in_range(advisory, version)
    if inside is False:
        return "fixed", f"{advisory.id}: fixed in {advisory.fixed_in}"
    why = result.detail if result is not None and result.detail else "its probe did not run"
    if elsewhere and result is not None:
        why = f"the installed runtime, which probes run on, is {result.version}"
    if inside:
        known = f"executorch {version} is in the range known to be affected ({advisory.affected})"
    else:
        known = f"affected is {advisory.affected}, nothing is known of executorch {version}"
    return "likely" if inside else "unknown", f"{advisory.id}, NOT MEASURED here ({why}): {known}"


def is_disagreement(advisory: Advisory, result: ProbeResult, version: str) -> bool:
    """Whether a probe's answer is not what the version range says."""
    return (result.outcome == "wrong") is not (in_range(advisory, version) is True)


def _other_implementation(advisory: Advisory, context: Context) -> tuple[str, str] | None:
    """What is known where the target has a portable kernel in place of the one measured."""
    opset = context.opset
    if not (opset.portable and opset.optimized.intersection(advisory.kernels)):
        return None
    told = f"{advisory.id}, NOT MEASURED: what was measured is the optimized library's kernel"
    if "portable" in advisory.libraries and in_range(advisory, opset.version):
        return "likely", f"{told}; the source of the portable one has the same fault"
    return "unknown", f"{told}, and this build has the portable one"


def _same(one: str, other: str) -> bool:
    """Equal versions up to a local label (`1.5.1+cpu`)."""
    return one.partition("+")[0] == other.partition("+")[0]


def evidence_of(advisory: Advisory, told: str) -> tuple[str, ...]:
    """What is known here, and the advisory's first evidence; `advisory show` has the rest."""
    return (told, *advisory.evidence[:1])


def is_silent(advisory: Advisory, context: Context) -> bool:
    """Whether there is nothing to tell of an advisory: it was measured right, or is fixed."""
    return standing(advisory, context)[0] in ("right", "fixed")


def as_known(finding: Finding, advisory: Advisory, context: Context) -> Finding:
    """The finding; where the advisory was not measured, and its range is silent, a note of that."""
    if standing(advisory, context)[0] != "unknown":
        return finding
    return replace(
        finding,
        severity=Severity.NOTE,
        message=f"was NOT CHECKED: {advisory.id} was not measured on {runtime_of(context)}; "
        f"elsewhere it {finding.message}",
    )


def runtime_of(context: Context) -> str:
    """`executorch 1.2.0`, `executorch 1.2.0 with portable kernels`."""
    opset = context.opset
    return f"{opset.runtime} {opset.version}{' with portable kernels' * opset.portable}"


def severity_of(call: OpCall, worst: Severity) -> Severity:
    """`worst` when the result can change training, a note when it reaches nothing."""
    return worst if call.reaches_training else Severity.NOTE


def advised_finding(
    call: OpCall,
    advisory: Advisory,
    code: str,
    severity: Severity,
    message: str,
    evidence: tuple[str, ...],
) -> Finding:
    """The finding `code` on one call, with the mends of the advisory."""
    mends = tuple(Mend(**mend) for mend in advisory.mends)
    finding = kernel_finding(call, code, message, evidence, severity_of(call, severity), mends)
    return replace(finding, advisory=advisory.id)
