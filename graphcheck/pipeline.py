"""One check from a workload to a report, in this process. `graphcheck.api` puts it in a child."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from graphcheck.errors import ModelError
from graphcheck.graph.types import JointGraph, Source
from graphcheck.judging import consult, run_rules, versions
from graphcheck.opset.types import Opset
from graphcheck.options import CheckOptions
from graphcheck.report.following import asked_rewrites, program_name
from graphcheck.report.types import NotChecked, Report, Suppressed, UnusedSuppression
from graphcheck.report.words import explain_command
from graphcheck.rewrite.gaps import is_gap
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.interface import rule_by_code
from graphcheck.rules.types import Finding, Mend, Severity

if TYPE_CHECKING:
    from graphcheck.graph.construction import Constructions
    from graphcheck.workload.types import Workload

__all__ = ["check_workload", "failure_report", "model_finding"]


_AVERAGE = Mend(
    "rewrite",
    "cumulative-average",
    "the running mean of all batches with a count that stays a tensor",
    True,
    "graphcheck export",
)


def check_workload(workload: Workload, options: CheckOptions) -> Report:
    """Trace the workload and apply every rule.

    A model that cannot be exported or differentiated gives a report that says why (`failed`).
    """
    from graphcheck.graph.capture import capture
    from graphcheck.graph.diagnose import precheck
    from graphcheck.opset.load import load, with_libraries, with_stamps

    opset = with_libraries(load(options.opset or "installed"), options.kernel_libraries)
    opset = with_stamps(opset, options.stamps)
    problems: list[ModelError] = list(precheck(workload))
    mended: tuple[Finding, ...] = ()
    try:
        graph = capture(workload, strict=options.strict)
    except ModelError as error:
        averaged = _averaged(workload, options) if error.code == "GC004" else None
        if averaged is None:
            problems += (error, *getattr(error, "others", ()))
            return failure_report(options, problems, workload.guesses, opset)
        graph = averaged
        mended = (replace(model_finding(error), mends=(_AVERAGE,)),)
    context, not_checked = consult(graph, opset)
    found = (*map(model_finding, problems), *mended, *run_rules(graph, context))
    if graph.from_data:
        from graphcheck.export.trial import try_lowering

        stops, untried = try_lowering(workload, opset, graph)
        found, not_checked = (*found, *stops), (*not_checked, *untried)
    kept, suppressed, unused = _silence(_not_to_freeze(found), workload, options)
    return Report(
        target=options.target,
        findings=deduplicate(kept),
        suppressed=suppressed,
        unused_suppressions=unused,
        not_checked=(
            *_own_kernels(graph, opset),
            *not_checked,
            *(NotChecked(*pair) for pair in graph.not_checked),
        ),
        guesses=workload.guesses,
        versions=versions(opset),
        ops=len(graph.calls),
        backward_ops=sum(call.backward for call in graph.calls),
        parameters=len(graph.parameters),
        next_command=_next_command(options.target, kept, joint=workload.joint),
    )


def _not_to_freeze(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings; what forward may use in another step is not offered to be frozen."""
    listed = tuple(found)
    if all(finding.code != "GC016" for finding in listed):
        return listed
    return tuple(replace(f, mends=()) if f.code == "GC503" else f for f in listed)


def _averaged(workload: Workload, options: CheckOptions) -> JointGraph | None:
    """The graph of a model that only its batch norms with `momentum=None` keep from export."""
    from torch.nn.modules.batchnorm import _BatchNorm

    from graphcheck.graph.capture import capture
    from graphcheck.rewrite.buffers import cumulative_average

    norms = (m for m in workload.module.modules() if isinstance(m, _BatchNorm))
    if all(norm.momentum is not None for norm in norms):
        return None
    try:
        with cumulative_average():
            return capture(workload, strict=options.strict)
    except ModelError:
        return None


def _next_command(target: str, findings: Iterable[Finding], *, joint: bool = False) -> str:
    """Export where that mends what is wrong (with what to freeze, swap, rewrite), else validate.

    A joint program has no model to compare with. Where export would refuse: what explains why. A
    loss that is not finite asks for other data first.
    """
    from graphcheck.graph.precheck import LOST

    bad = [f for f in findings if f.severity is not Severity.NOTE]
    if any(f.code == "GC404" for f in bad) and not joint:
        return f"graphcheck validate {shlex.quote(target)} --data FILE.npz"
    # The proof cannot measure rounding through control flow, either.
    lost = next((f for f in bad if f.code in (*LOST, "GC106")), None)
    if lost is not None:
        return explain_command(lost)
    gaps = [finding for finding in bad if is_gap(finding)]
    swaps = [next((m.name for m in gap.mends if m.kind == "swap"), "") for gap in gaps]
    if gaps and (joint or not all(swaps)):
        return explain_command(gaps[0 if joint else swaps.index("")])
    freezing = (m.command for f in bad for m in f.mends if f.code == "GC503")
    frozen = dict.fromkeys(shlex.split(command)[-1] for command in freezing if command)
    mendable = any(m.exact and m.kind in ("rewrite", "layout") for f in bad for m in f.mends)
    # The stock flow, which validate trains, stops where export lowers without the IR check.
    mendable |= not joint and any(f.code == "GC104" for f in findings)
    if mendable or frozen or gaps:
        more = "".join(f" --freeze {shlex.quote(name)}" for name in frozen)
        more += "".join(f" --swap {name}" for name in dict.fromkeys(swaps))
        more += asked_rewrites(bad) + " --no-validate" * joint
        return f"graphcheck export {shlex.quote(target)} -o {program_name(target)}{more}"
    return f"graphcheck {'oplist' if joint else 'validate'} {shlex.quote(target)}"


def _own_kernels(graph: JointGraph, opset: Opset) -> Iterable[NotChecked]:
    """The kernels of the user's own library that the graph calls: nothing is known of them."""
    if not (opset.extra or opset.libraries):
        return
    from graphcheck.opset.support import support
    from graphcheck.opset.types import Grade

    answers = [support(call, opset) for call in graph.calls]
    unknown = {a.kernel for a in answers if a.grade is Grade.NOT_CHECKED and a.library is None}
    unknown |= {a.kernel for a in answers if a.library is not None and not a.library.known}
    for kernel in sorted(unknown):
        yield NotChecked(
            kernel, "it is in your own kernel library; graphcheck validate measures it"
        )


def model_finding(error: ModelError) -> Finding:
    """The GC0 finding of a model error."""
    rule = rule_by_code(error.code)
    return Finding(
        code=error.code,
        severity=Severity.ERROR,
        subject=rule.name.replace("-", " ") if rule else "not checked",
        message=error.message,
        source=Source(
            module=getattr(error, "module", "") or "forward",
            file=getattr(error, "file", ""),
            line=getattr(error, "line", 0),
        ),
        module=getattr(error, "module", ""),
        evidence=(error.hint,) if error.hint else (),
    )


def failure_report(
    options: CheckOptions,
    problems: Iterable[ModelError],
    guesses: tuple[str, ...] = (),
    opset: Opset | None = None,
) -> Report:
    """A report on a model that could not be checked: every op is not checked.

    A problem that two places found is told once.
    """
    unique = {(problem.code, problem.message): problem for problem in problems}
    return Report(
        target=options.target,
        findings=deduplicate(map(model_finding, unique.values())),
        not_checked=(NotChecked("every op of the model", "there is no joint graph to look at"),),
        guesses=guesses,
        versions=versions(opset),
        failed=True,
    )


def _silence(
    found: Iterable[Finding], workload: Workload, options: CheckOptions
) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...], tuple[UnusedSuppression, ...]]:
    from graphcheck.graph.construction import Constructions
    from graphcheck.suppress import apply, config_of, read_sources

    root = workload.module
    if workload.prefix:
        root = root.get_submodule(workload.prefix.rstrip("."))
    constructions = Constructions(root)
    located = tuple(_located(finding, constructions) for finding in found)
    sources = read_sources(located, workload.file)
    return apply(located, sources, config_of(options))


def _located(finding: Finding, constructions: Constructions) -> Finding:
    """The finding with the line that constructs its module, which also stands in for no line."""
    source = finding.source
    path = finding.module or source.module
    if not path or path == "forward":
        return finding
    file, line = constructions.locate(path)
    if not line:
        return finding
    source = replace(source, constructed_file=file, constructed_line=line)
    if not source.line:
        source = replace(source, file=file, line=line)
    return replace(finding, source=source)
