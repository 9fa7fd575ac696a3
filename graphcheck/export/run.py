"""The whole of `export`: find, rewrite, look again, lower once, correct, check, prove, write."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from graphcheck.counted import counted
from graphcheck.errors import DeviceError, ModelError
from graphcheck.export.card import first_card, write_export
from graphcheck.export.draws import with_draws_as_inputs
from graphcheck.export.freeze import freeze_
from graphcheck.export.inference import (
    METHOD,
    Prediction,
    inference_facts,
    inference_method,
    prove_inference,
)
from graphcheck.export.output import checked_output
from graphcheck.export.reference import reference_trace
from graphcheck.export.rewriting import SETTLED, STANDING, left_standing, look, prepare
from graphcheck.export.swap import swap_
from graphcheck.export.types import Card, ExportOptions, ExportResult, RandomInput
from graphcheck.graph.precheck import LOST, precheck
from graphcheck.opset.load import load, with_libraries
from graphcheck.opset.types import Opset
from graphcheck.report.following import asked_rewrites
from graphcheck.rewrite.buffers import initial_state_passes
from graphcheck.rewrite.metadata import correct
from graphcheck.rewrite.plan import Choice, check_choice, forbidden
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.types import Finding, Severity
from graphcheck.runtime.lower import Lowered, lower
from graphcheck.runtime.placement import Placement
from graphcheck.spill import Buffer, release
from graphcheck.validate.types import Verdict
from graphcheck.worker import progress
from graphcheck.workload.types import Workload

__all__ = ["export_workload"]

_CORRECTED = ("GC501",)
_TOLD = ("GC504", "GC510")
_STILL = (
    "{steps} did not change what predict gives: that it uses the trained weights is NOT CHECKED"
)
_OWN_DRAWS = (
    "the program draws its own random numbers, so that the reference trace is that of one run and "
    "no other has its losses; --deterministic-dropout makes a trace that can be asserted on"
)


def export_workload(workload: Workload, options: ExportOptions) -> ExportResult:
    """Export a workload as a program that trains right on the target runtime, and write it.

    Nothing is written unless every op of the emitted program is provided by the runtime and, with
    `options.prove`, training in it agrees with eager PyTorch. Raises UsageError for options that
    cannot be used, ModelError for a model that cannot be traced.
    """
    output = checked_output(options)
    check_choice(options.rewrite, options.no_rewrite)
    opset = with_libraries(load(options.opset or "installed"), options.kernel_libraries)
    problems = precheck(workload)
    for problem in problems:
        if problem.fatal:
            raise problem
    workload, swaps = swap_(workload, options.swaps)
    frozen = freeze_(workload, options.freeze)
    choice = Choice(
        options.rewrite, options.no_rewrite, options.prefer == "patch", opset.all_kernels
    )
    try:
        workload, rewritten, layouts = prepare(workload, opset, choice)
    except ModelError as error:
        raise _explained(error, problems) from error
    prediction = Prediction.of(workload) if options.with_inference else None
    inference = inference_method(prediction, opset, choice) if prediction else None
    draws: tuple[RandomInput, ...] = ()
    if options.deterministic_dropout:
        workload, traced, draws = with_draws_as_inputs(
            workload, rewritten.traced, options.reference_steps
        )
        if draws:
            rewritten = look(traced, workload, opset, rewritten.records)
    standing = left_standing(rewritten.findings)
    if inference:
        # Nothing of it reaches a parameter, so that what is a note there is wrong here.
        standing += [f for f in inference.findings if f.family in STANDING and not f.mitigated]
    if standing:
        return _refused(options, standing, choice)
    joint = rewritten.traced.joint
    lowered = lower(
        workload,
        traced=rewritten.traced,
        # An op that the check refuses and no finding holds back has its kernel (GC104), which is
        # looked up in the emitted program.
        retry_without_ir_check=True,
        passes=initial_state_passes(joint),
        settle=True,
        placement=Placement(
            methods={METHOD: inference.traced.joint} if inference else {},
            trained=frozenset(
                spec.target
                for spec in joint.graph_signature.output_specs
                if spec.kind.name == "GRADIENT_TO_PARAMETER"
            ),
            external=options.external_weights,
        ),
    )
    if lowered.program is None:
        failure = lowered.failure
        reason = failure.message if failure else "lowering gave no program"
        return ExportResult(options.target, failure=reason, hint=failure.hint if failure else "")
    corrected, corrections = correct(lowered.program)
    if not lowered.ir_checked:
        refused = sorted({f.subject for f in rewritten.findings if f.code == "GC104"})
        sizes = "a size that depends on the data" if rewritten.graph.from_data else ""
        told = ", ".join(refused) or sizes or "an op of predict"
        corrections += (f"lowered without to_edge's IR check, which refuses {told}",)
    if lowered.settled:
        corrections += (SETTLED,)
    lowered = replace(lowered, program=corrected)
    missing = _missing_kernels(corrected, opset)
    if missing:
        return _missing(options, missing)
    verdict = None
    if options.prove:
        from graphcheck.validate.run import validate_workload

        verdict = validate_workload(workload, options, lowered=lowered)
        release()
        _proven_where_required(verdict, options)
        if verdict.verdict not in ("match", "drift"):
            return ExportResult(
                options.target,
                failure=f"the parity check on this machine says {verdict.verdict}: "
                f"{verdict.reason}",
                hint=_after(verdict, problems),
                failure_code="GC3",
                verdict=verdict,
            )
    card = first_card(
        workload, options, output, lowered, rewritten, opset, frozen, layouts + corrections
    )
    card = replace(card, swaps=swaps, random_inputs=draws, patched=_patched(rewritten.findings))
    card = replace(card, remarks=_remarks(problems, rewritten.findings))
    if not draws and any(f.code == "GC506" for f in rewritten.findings):
        card = replace(card, remarks=(*card.remarks, _OWN_DRAWS))
    if options.deterministic_dropout and not draws:
        nothing = "--deterministic-dropout: the model draws no random number; nothing was changed"
        card = replace(card, remarks=(*card.remarks, nothing))
    if inference:
        card = replace(card, inference=inference_facts(lowered, inference))
    if options.prove:
        card = _recorded(card, workload, lowered, prediction, options)
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
    return write_export(output, lowered, card, workload, options, verdict)


def _explained(error: ModelError, problems: Sequence[ModelError]) -> ModelError:
    """A parameter without gradient by the cause of it: a branch that tracing has frozen."""
    frozen = next((p for p in problems if p.code == "GC016"), None)
    if error.code != "GC503" or frozen is None:
        return error
    return ModelError(f"{error.message}. {frozen.message}", frozen.hint, frozen.code)


def _after(verdict: Verdict, problems: Sequence[ModelError] = ()) -> str:
    """What to do after a check that was not passed. Lost training is no better without a check."""
    from graphcheck.report.following import verdict_next_command

    command = verdict_next_command(verdict)
    if verdict.verdict == "not run" and command.startswith("graphcheck validate"):
        return f"nothing was written; try {command}"
    lost = next((p for p in problems if p.code in LOST), None)
    if verdict.verdict == "diverged" and lost is not None:
        return f"nothing was written. {lost.hint}"
    return "nothing was written; --no-validate writes the program all the same"


def _proven_where_required(verdict: Verdict, options: ExportOptions) -> None:
    """Raises DeviceError where a required device, or every one, could not be had."""
    lost = [device for device in verdict.devices if device.lost]
    none_left = len(lost) == len(verdict.devices) and options.on != ("host",)
    if lost and (options.require or none_left):
        raise DeviceError(
            f"nothing was written: not proven on {lost[0].name}: {lost[0].reason}",
            "name a device that is there with --on"
            if none_left
            else "without --require the other devices count",
        )


def _recorded(
    card: Card,
    workload: Workload,
    lowered: Lowered,
    prediction: Prediction | None,
    options: ExportOptions,
) -> Card:
    """The card with its reference trace, and the inference method proven, run on the device."""
    with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
        program, weights = lowered.write(Path(folder))
        progress("recording the reference trace")
        card = reference_trace(card, workload, program, weights, options)
        if prediction and card.inference:
            proven = prove_inference(
                card.inference, prediction, workload, program, weights, options
            )
            card = replace(card, inference=proven)
            if proven.moved == 0.0:
                still = _STILL.format(steps=counted(proven.steps, "training step"))
                card = replace(card, remarks=(*card.remarks, still))
    return card


def _remarks(problems: Iterable[ModelError], findings: Iterable[Finding]) -> tuple[str, ...]:
    """What is left to know of a program that trains: warnings, and what the export cannot mend."""
    told = [f"{problem.code}: {problem.message}" for problem in problems]
    told += [
        f"{finding.code}: {finding.subject} ({finding.module}): {finding.message}{_mended(finding)}"
        for finding in deduplicate(findings)
        if (finding.severity is not Severity.NOTE or finding.code in _TOLD)
        and finding.code not in _CORRECTED
    ]
    return tuple(told)


def _mended(finding: Finding) -> str:
    options = asked_rewrites((finding,)).strip()
    return f" (export with {options} mends it)" if options else ""


def _patched(findings: Iterable[Finding]) -> tuple[str, ...]:
    """What a kernel library must run, for the runtime's own kernel is missing or wrong."""
    return tuple(
        f"{finding.mitigated}: {finding.subject} ({finding.module})"
        for finding in deduplicate(findings)
        if finding.mitigated and finding.family in STANDING
    )


def _refused(options: ExportOptions, standing: Sequence[Finding], choice: Choice) -> ExportResult:
    findings = deduplicate(standing)
    held = [finding for finding in findings if forbidden((finding,), choice)]
    bare = [finding for finding in findings if finding not in held]
    against = " and ".join(f"--no-rewrite {entry}" for entry in forbidden(held, choice))
    failures = [f"no rewrite covers {_subjects(bare)}"] if bare else []
    if held:
        verb = "forbid" if " and " in against else "forbids"
        failures.append(f"{against} {verb} the rewrite of {_subjects(held)}")
    return ExportResult(
        options.target,
        failure="; ".join(failures),
        hint="see the findings for the nearest alternatives"
        if bare
        else f"leave {against} out, or see the findings for other mends",
        failure_code=findings[0].code,
        findings=findings,
    )


def _subjects(findings: Iterable[Finding]) -> str:
    return ", ".join(dict.fromkeys(finding.subject for finding in findings))


def _missing_kernels(program: Buffer, opset: Opset) -> tuple[str, ...]:
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
