"""`graphcheck model.pte`: a program is judged against a runtime, without torch or the model."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from graphcheck.advisory.load import all_advisories
from graphcheck.advisory.needed import needed
from graphcheck.advisory.run import cached
from graphcheck.advisory.types import Advisory
from graphcheck.artefacts.calls import graph_of, is_metadata
from graphcheck.artefacts.facts import facts_of
from graphcheck.artefacts.library import build_command, with_library
from graphcheck.errors import DeviceError
from graphcheck.graph.artefact import Artefact, MethodFact
from graphcheck.graph.pte import read_before_written, read_pte
from graphcheck.graph.pte_types import PteMethod, PteProgram
from graphcheck.graph.signatures import signature_of
from graphcheck.graph.types import JointGraph, Source
from graphcheck.judging import run_rules, versions
from graphcheck.opset.conditions import is_undecided
from graphcheck.opset.load import load, other_release, with_libraries, with_stamps
from graphcheck.opset.registry import shipped
from graphcheck.opset.types import Opset
from graphcheck.options import CheckOptions
from graphcheck.report.about import byte_size
from graphcheck.report.following import asked_rewrites
from graphcheck.report.types import NotChecked, Report
from graphcheck.report.words import some_of
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.interface import Context
from graphcheck.rules.types import Finding, Mend, Severity
from graphcheck.suppress import apply, config_of

__all__ = ["check_program"]

_METADATA = "GC501"
_SHOWN = 8
_NO_MODULES = (
    "Modules, since a program file names instructions, but no modules or lines of the source: each "
    "is that of the weight an instruction reads, or of the one before it."
)
_AGAIN = Mend(
    "rewrite",
    "buffers",
    "export the model again: the training metadata is corrected, the initial state is kept",
    True,
    "graphcheck export",
)


def check_program(options: CheckOptions) -> Report:
    """Judge a `.pte`. Nothing is run: of probes only answers that are remembered count.

    Raises ModelError for a file that is no program, UsageError for an unknown opset.
    """
    program = read_pte(options.target)
    opset, guesses = _opset(options)
    graph = graph_of(program, opset)
    artefact = facts_of(program)
    advisories = all_advisories()
    context = Context(opset=opset, advisories=advisories, probes=cached(needed(graph, advisories)))
    found = (*run_rules(graph, context), *_metadata_findings(program, artefact))
    kept, suppressed, unused = apply(found, {}, config_of(options))
    kernels = {call.node: call.out_variant or "" for call in graph.calls}
    release = other_release(opset)
    findings = tuple(
        with_library(_with_instructions(finding), kernels, release) for finding in deduplicate(kept)
    )
    if any(finding.nodes for finding in findings):
        guesses = (*guesses, _NO_MODULES)
    return Report(
        target=options.target,
        findings=findings,
        suppressed=suppressed,
        unused_suppressions=unused,
        not_checked=tuple(_not_checked(program, artefact, graph, opset, advisories)),
        guesses=guesses,
        versions=versions(opset),
        ops=len(graph.calls),
        backward_ops=sum(call.backward for call in graph.calls),
        parameters=len(graph.parameters),
        next_command=_next(options.target, findings, release),
        artefact=artefact,
    )


def _with_instructions(finding: Finding) -> Finding:
    """The finding with the numbers of its instructions, by method, as its first evidence."""
    numbers: dict[str, list[str]] = {}
    for node in finding.nodes:
        method, _, number = node.rpartition(":")
        numbers.setdefault(method, []).append(number)
    told = "; ".join(
        f"instruction{'s' * (len(found) > 1)} {some_of(found, _SHOWN)} of {method}"
        for method, found in numbers.items()
    )
    return replace(finding, evidence=(told, *finding.evidence)) if told else finding


def _opset(options: CheckOptions) -> tuple[Opset, tuple[str, ...]]:
    guesses: tuple[str, ...] = ()
    try:
        opset = load(options.opset or "installed")
    except DeviceError:
        if options.opset:
            raise
        newest = max(shipped(), key=_version)
        opset = load(newest)
        guesses = (f"No runtime is installed here; the program is judged against {newest}.",)
    opset = with_libraries(opset, options.kernel_libraries)
    return with_stamps(opset, options.stamps), guesses


def _version(name: str) -> tuple[int, ...]:
    digits = name.rpartition("-")[2].split(".")
    return tuple(int(part) for part in digits if part.isdigit())


def _metadata_findings(program: PteProgram, artefact: Artefact) -> Iterator[Finding]:
    for method in artefact.methods:
        yield from _shift(method)
        yield from _lost_state(program.method(method.name), method)


def _shift(method: MethodFact) -> Iterator[Finding]:
    training = method.training
    if training is None or not (training.shift or training.fault):
        return
    if training.fault:
        message = f"does not say where gradients start: {training.fault}"
    else:
        first = training.gradients_index - training.shift
        message = (
            f"says that gradients start at output {training.gradients_index} and parameters at "
            f"{training.parameters_index}; they start at {first} and "
            f"{training.parameters_index - training.shift}, so each name gets another's gradient"
        )
    yield Finding(
        code=_METADATA,
        severity=Severity.ERROR,
        subject=f"training metadata of {method.name}",
        message=message,
        source=Source(module=method.name),
        module=method.name,
        modules=(method.name,),
        evidence=(
            f"{len(training.parameters)} names, {len(method.outputs)} outputs: user outputs, "
            "gradients and parameters come in this order",
        ),
        mends=(_AGAIN,),
        gradients=training.parameters,
    )


def _lost_state(method: PteMethod, fact: MethodFact) -> Iterator[Finding]:
    stale = [method.values[index] for index in read_before_written(method)]
    # What a method is given in the memory of another one is not lost.
    stale = [v for v in stale if v.allocation is not None and v.allocation.memory_id == 1]
    if not stale or fact.delegates or any(i.kind != "kernel" for i in method.instructions):
        return
    names = [value.name or f"{value.dtype}{list(value.shape)}" for value in stale]
    several = len(stale) > 1
    yield Finding(
        code=_METADATA,
        severity=Severity.WARNING,
        subject="initial state",
        message=(
            f"of {len(stale)} buffer{'s' if several else ''} is not in the file: "
            f"{'they start' if several else 'it starts'} with what the app's memory holds"
        ),
        source=Source(module=method.name),
        module=method.name,
        modules=(method.name,),
        count=len(stale),
        evidence=(f"read before they are written: {', '.join(names[:5])}",),
        mends=(_AGAIN,),
    )


def _not_checked(
    program: PteProgram,
    artefact: Artefact,
    graph: JointGraph,
    opset: Opset,
    advisories: Iterable[Advisory],
) -> Iterator[NotChecked]:
    for method in artefact.methods:
        for delegate in method.delegates:
            yield NotChecked(
                f"{delegate.backend} in {method.name}",
                f"{byte_size(delegate.size)} that a backend runs; a file does not tell how",
            )
    unknown = Counter(
        call.out_variant for call in graph.calls if signature_of(call.out_variant or "") is None
    )
    for kernel, count in sorted(unknown.items(), key=str):
        if kernel and not kernel.startswith("executorch_prim::"):
            yield NotChecked(
                f"arguments of {kernel} (x{count})", "the names of its arguments are not known"
            )
    yield from _undecided(graph, opset, advisories)
    for entry in program.methods:
        if entry.chains > 1:
            yield NotChecked(f"{entry.name}", f"{entry.chains - 1} further chains of instructions")
        if not is_metadata(entry) and any(i.kind == "jump_false" for i in entry.instructions):
            yield NotChecked(f"control flow of {entry.name}", "each branch is taken to be run")


def _undecided(
    graph: JointGraph, opset: Opset, advisories: Iterable[Advisory]
) -> Iterator[NotChecked]:
    """Calls of which the file does not tell whether a limit or an advisory concerns them."""
    by_op: dict[str, list[Advisory]] = {}
    for advisory in advisories:
        for op in advisory.ops:
            by_op.setdefault(op, []).append(advisory)
    found: Counter[tuple[str, str]] = Counter()
    for call, *others in graph.alike:
        count = 1 + len(others)
        for advisory in by_op.get(call.op, ()):
            if is_undecided(advisory.when, call):
                found[(call.op, f"{advisory.id} ({advisory.title})")] += count
        for limit in opset.limits_by_kernel.get(call.out_variant or "", ()):
            if call.arguments and is_undecided(limit.when, call):
                found[(call.op, f"{limit.rule}, {limit.reason}")] += count
    for (op, what), count in sorted(found.items()):
        yield NotChecked(f"{op} (x{count})", f"its arguments are known at run time only: {what}")


def _next(target: str, findings: Sequence[Finding], release: str) -> str:
    """A program cannot be mended, but given kernels; its model can."""
    command = build_command(findings, release)
    if command:
        return command
    bad = [finding for finding in findings if finding.severity is not Severity.NOTE]
    if bad:
        more = asked_rewrites(bad)
        return f"graphcheck export MODEL.py -o {shlex.quote(os.path.basename(target))}{more}"
    return f"graphcheck oplist {shlex.quote(target)}"
