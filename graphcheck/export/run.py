"""The whole of `export`: find, rewrite, look again, lower once, correct, check, prove, write."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from graphcheck.errors import ModelError, UsageError
from graphcheck.export.draws import with_draws_as_inputs
from graphcheck.export.freeze import freeze_
from graphcheck.export.layout import contiguous_, contiguous_requests_, wants_default_layout
from graphcheck.export.reference import reference_trace
from graphcheck.export.swap import swap_
from graphcheck.export.types import (
    Card,
    ExportOptions,
    ExportResult,
    InputFact,
    RandomInput,
    RewriteRecord,
)
from graphcheck.files import write_atomic
from graphcheck.graph.capture import describe, exported_program, joint_program, trace
from graphcheck.graph.precheck import precheck
from graphcheck.graph.trace import Traced, trace_joint
from graphcheck.graph.types import JointGraph
from graphcheck.opset.load import load, with_libraries
from graphcheck.opset.types import Opset
from graphcheck.pipeline import consult, run_rules, versions
from graphcheck.report.types import NotChecked
from graphcheck.rewrite.apply import Applied
from graphcheck.rewrite.buffers import cumulative_average, initial_state_passes
from graphcheck.rewrite.metadata import correct
from graphcheck.rewrite.plan import Choice, Plan
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.interface import Context
from graphcheck.rules.types import Finding, Severity
from graphcheck.runtime.lower import lower
from graphcheck.validate.batches import device_batches
from graphcheck.worker import progress
from graphcheck.workload.types import Workload

__all__ = ["export_workload"]

_ROUNDS = 4
_STANDING = ("GC1", "GC2", "GC3")
_CORRECTED = ("GC501",)


@dataclass
class _Rewritten:
    """A joint graph after its rewrites, its findings, and what was done."""

    traced: Traced
    graph: JointGraph
    context: Context
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...] = ()
    records: list[tuple[Applied, str, str]] = field(default_factory=list)


def export_workload(workload: Workload, options: ExportOptions) -> ExportResult:
    """Export a workload as a program that trains right on the target runtime, and write it.

    Nothing is written unless every op of the emitted program is provided by the runtime and, with
    `options.prove`, training in it agrees with eager PyTorch. Raises UsageError for options that
    cannot be used, ModelError for a model that cannot be traced.
    """
    output = _checked_output(options.output)
    opset = with_libraries(load(options.opset or "installed"), options.kernel_libraries)
    problems = precheck(workload)
    for problem in problems:
        if problem.fatal:
            raise problem
    workload, swaps = swap_(workload, options.swaps)
    frozen = freeze_(workload, options.freeze)
    choice = Choice(options.rewrite, options.no_rewrite)
    with cumulative_average():
        traced = trace(workload)
    state = _look(traced, workload, opset)
    layouts: tuple[str, ...] = ()
    if wants_default_layout(state.findings):
        workload, traced, layouts = _row_major(workload, traced)
        state = _look(traced, workload, opset) if layouts else state
    rewritten = _rewrite(state, workload, opset, choice)
    draws: tuple[RandomInput, ...] = ()
    if options.deterministic_dropout:
        workload, traced, draws = with_draws_as_inputs(
            workload, rewritten.traced, options.reference_steps
        )
        if draws:
            records = rewritten.records
            rewritten = _look(traced, workload, opset)
            rewritten.records = records
    standing = [f for f in rewritten.findings if _stands(f)]
    if standing:
        return _refused(options, standing)
    lowered = lower(
        workload, traced=rewritten.traced, passes=initial_state_passes(rewritten.traced.joint)
    )
    if lowered.program is None:
        failure = lowered.failure
        reason = failure.message if failure else "lowering gave no program"
        return ExportResult(options.target, failure=reason, hint=failure.hint if failure else "")
    corrected, corrections = correct(lowered.program)
    lowered = replace(lowered, program=corrected)
    missing = _missing_kernels(corrected, opset)
    if missing:
        return _missing(options, missing)
    verdict = None
    if options.prove:
        from graphcheck.validate.run import validate_workload

        verdict = validate_workload(workload, options, lowered=lowered)
        if verdict.verdict not in ("match", "drift"):
            return ExportResult(
                options.target,
                failure=f"the parity check on this machine says {verdict.verdict}: "
                f"{verdict.reason}",
                hint="nothing was written; --no-validate writes the program all the same",
                failure_code="GC3",
                verdict=verdict,
            )
    card = _card(
        workload, options, output, corrected, rewritten, opset, frozen, layouts + corrections
    )
    card = replace(card, swaps=swaps, random_inputs=draws)
    card = replace(card, remarks=_remarks(problems, rewritten.findings))
    if options.deterministic_dropout and not draws:
        nothing = "--deterministic-dropout: the model draws no random number; nothing was changed"
        card = replace(card, remarks=(*card.remarks, nothing))
    if options.prove:
        progress("recording the reference trace")
        card = reference_trace(card, workload, corrected, options)
    if verdict is not None:
        card = replace(
            card,
            verdict=verdict.verdict,
            verdict_reason=verdict.reason,
            worst_gradient_errors={
                f"{workload.prefix}{name}": error
                for name, error in verdict.worst_gradient_errors.items()
            },
        )
    inputs = b"".join(array.data for batch in device_batches(workload) for array in batch)
    return _write(output, corrected, inputs, card, options, verdict)


def _remarks(problems: Iterable[ModelError], findings: Iterable[Finding]) -> tuple[str, ...]:
    """What is left to know of a program that trains: warnings, and what the export cannot mend."""
    told = [f"{problem.code}: {problem.message}" for problem in problems]
    told += [
        f"{finding.code}: {finding.subject} ({finding.module}): {finding.message}"
        for finding in deduplicate(findings)
        if finding.severity is not Severity.NOTE and finding.code not in _CORRECTED
    ]
    return tuple(told)


def _checked_output(name: str) -> Path:
    """The path to write to. Raises UsageError before any work when it cannot be written."""
    path = Path(name)
    if path.is_dir():
        raise UsageError(f"{name} is a folder", "name a file: -o model.pte")
    if not path.parent.is_dir():
        raise UsageError(
            f"{name} cannot be written: there is no folder {path.parent}",
            f"make it first: mkdir -p {path.parent}",
        )
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{name} cannot be written: no permission in {path.parent}")
    return path


def _stands(finding: Finding) -> bool:
    return finding.family in _STANDING and finding.severity is not Severity.NOTE


def _row_major(workload: Workload, traced: Traced) -> tuple[Workload, Traced, tuple[str, ...]]:
    """The workload and its joint graph in the default memory layout, and what was changed."""
    workload, told = contiguous_(workload)
    exported = traced.exported
    if told:
        with cumulative_average():
            exported, _ = exported_program(workload, strict=traced.strict)
    told += contiguous_requests_(exported)
    if told:
        traced = joint_program(exported, workload, strict=traced.strict)
    return workload, traced, told


def _rewrite(state: _Rewritten, workload: Workload, opset: Opset, choice: Choice) -> _Rewritten:
    """Rewrite until no finding asks for more; every result is looked at again."""
    if state.traced.no_gradient:
        names = ", ".join(state.traced.no_gradient)
        raise ModelError(
            f"the loss does not depend on {names}",
            "freeze what does not train: --freeze NAME (a pattern such as 'spare.*' will do)",
            "GC503",
        )
    for _ in range(_ROUNDS):
        progress("rewriting the joint graph")
        plan = Plan.of(state.findings, choice)
        done: list[Applied] = []
        traced = state.traced
        exported, forward = plan.rewrite_forward(traced.exported, traced.joint)
        if any(item.applied for item in forward):
            traced = trace_joint(exported, strict=traced.strict)
            done += forward
        else:
            joint, done = plan.rewrite_joint(traced.joint)
            traced = replace(traced, joint=joint)
        applied = [item for item in done if item.applied]
        if not applied:
            break
        records = state.records + [_record(item, plan, state) for item in applied]
        state = _look(traced, workload, opset)
        state.records = records
    return state


def _look(traced: Traced, workload: Workload, opset: Opset) -> _Rewritten:
    graph = describe(traced, workload)
    context, not_checked = consult(graph, opset)
    return _Rewritten(traced, graph, context, run_rules(graph, context), not_checked)


def _record(item: Applied, plan: Plan, state: _Rewritten) -> tuple[Applied, str, str]:
    """The applied rewrite, the module it concerns and the finding that asked for it."""
    finding = plan.reasons.get(item.node)
    source = next((c.source for c in state.graph.calls if c.node == item.node), None)
    module = source.module if source else (finding.source.module if finding else "")
    reason = f"{finding.code}: {finding.message}" if finding else "asked for with --rewrite"
    return item, module, reason


def _refused(options: ExportOptions, standing: Sequence[Finding]) -> ExportResult:
    findings = deduplicate(standing)
    subjects = ", ".join(dict.fromkeys(f.subject for f in findings))
    return ExportResult(
        options.target,
        failure=f"no rewrite covers {subjects}",
        hint="see the findings for the nearest alternatives",
        failure_code=findings[0].code,
        findings=findings,
    )


def _missing_kernels(program: bytes, opset: Opset) -> tuple[str, ...]:
    """Operators of the emitted program that the runtime has not: the last word on GC1."""
    from graphcheck.graph.pte import read_pte

    have = opset.all_kernels
    return tuple(
        sorted(
            name
            for name in {op for method in read_pte(program).methods for op in method.operators}
            if name not in have and not name.startswith("executorch_prim::")
        )
    )


def _missing(options: ExportOptions, missing: Iterable[str]) -> ExportResult:
    names = ", ".join(missing)
    return ExportResult(
        options.target,
        failure=f"the emitted program calls kernels that the runtime has not: {names}",
        hint="please report this: the check should have foreseen it",
        failure_code="GC101",
    )


def _card(
    workload: Workload,
    options: ExportOptions,
    output: Path,
    program: bytes,
    rewritten: _Rewritten,
    opset: Opset,
    frozen: tuple[str, ...],
    corrections: tuple[str, ...],
) -> Card:
    from graphcheck.graph.pte import read_pte

    parsed = read_pte(program)
    method = next(m for m in parsed.methods if m.name == "forward")
    graph = rewritten.graph
    return Card(
        program=output.name,
        program_bytes=len(program),
        program_sha256=hashlib.sha256(program).hexdigest(),
        target=options.target,
        versions=versions(opset),
        opset=f"{opset.runtime}-{opset.version}",
        kernels=tuple(sorted(set(method.operators))),
        arena_bytes=method.arena_bytes,
        inputs=tuple(InputFact(name, fact.dtype, fact.shape) for name, fact in graph.inputs),
        parameters=parsed.training["forward"].names,
        frozen=frozen or tuple(p.name for p in graph.parameters if not p.trainable),
        mutated_buffers=tuple(b.name for b in graph.buffers if b.mutated),
        rewrites=_rewrite_records(rewritten.records),
        corrections=corrections,
        guesses=workload.guesses,
        not_checked=rewritten.not_checked,
        optimizer=options.optimizer,
        learning_rate=options.learning_rate,
    )


def _rewrite_records(records: Sequence[tuple[Applied, str, str]]) -> tuple[RewriteRecord, ...]:
    counts = Counter(item.rewrite.name for item, _, _ in records)
    found = []
    for name in sorted(counts):
        own = [record for record in records if record[0].rewrite.name == name]
        rewrite = own[0][0].rewrite
        found.append(
            RewriteRecord(
                name=name,
                op=rewrite.op,
                count=counts[name],
                modules=tuple(dict.fromkeys(module for _, module, _ in own if module)),
                reason="; ".join(dict.fromkeys(reason for _, _, reason in own)),
                formula=rewrite.formula,
                exact=rewrite.exact,
                growth=sum(item.growth for item, _, _ in own),
            )
        )
    return tuple(found)


def _write(
    output: Path, program: bytes, inputs: bytes, card: Card, options: ExportOptions, verdict: Any
) -> ExportResult:
    card_path, inputs_path = output.with_suffix(".card.json"), output.with_suffix(".inputs.bin")
    card = replace(card, reference_inputs_file=inputs_path.name)
    progress(f"writing {output}")
    try:
        write_atomic(output, program)
        write_atomic(inputs_path, inputs)
        write_atomic(card_path, msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")
    except OSError as error:
        raise UsageError(
            f"{output} could not be written: {error.strerror or error}",
            "nothing half-written was left; free some space or name another place with -o",
        ) from error
    return ExportResult(
        options.target,
        written=(str(output), str(card_path), str(inputs_path)),
        card=card,
        verdict=verdict,
    )
