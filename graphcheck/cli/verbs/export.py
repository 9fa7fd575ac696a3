"""`graphcheck export TARGET -o model.pte`: a program that trains right, and its card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphcheck.cli import options as opt
from graphcheck.cli import shadow as inspect
from graphcheck.cli import training as train
from graphcheck.cli.interface import Verb
from graphcheck.cli.output import complain, emit, emit_line
from graphcheck.cli.progress import Progress
from graphcheck.counted import counted
from graphcheck.errors import ExitCode, UsageError
from graphcheck.report.about import byte_size
from graphcheck.report.text_verdict import wrong_details, wrong_sentence
from graphcheck.report.words import some_of

if TYPE_CHECKING:
    from graphcheck.export.types import ExportResult, Inference

__all__ = ["VERB", "export"]

ProgramOption = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="The program to write (.pte).")
]
FreezeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--freeze", metavar="PATTERN", help="Freeze parameters or modules by name; repeatable."
    ),
]
SwapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--swap", metavar="NAME[=ARG]", help="Swap modules before the export; repeatable."
    ),
]
RewriteOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rewrite",
        metavar="NAME",
        help="Make this rewrite also where it is not needed: its name, or its op (aten.sort).",
    ),
]
NoRewriteOption = Annotated[
    list[str] | None,
    typer.Option(
        "--no-rewrite",
        metavar="NAME",
        help="Never make this rewrite: its name, or its op (aten.sort).",
    ),
]
ValidateOption = Annotated[
    bool,
    typer.Option("--validate/--no-validate", help="Prove parity with eager before writing."),
]
DropoutOption = Annotated[
    bool,
    typer.Option(
        "--deterministic-dropout", help="Take random draws (dropout masks) as extra inputs."
    ),
]
WeightsOption = Annotated[
    bool,
    typer.Option("--external-weights", help="Keep the weights in a file beside it (.ptd)."),
]
InferenceOption = Annotated[
    bool,
    typer.Option(
        "--with-inference", help="Add a method that predicts with the weights being trained."
    ),
]
PreferOption = Annotated[
    str,
    typer.Option(
        "--prefer",
        metavar="patch|rewrite",
        help="For an op that a kernel library runs: rely on it, or rewrite all the same.",
    ),
]


def export(
    target: opt.ModelArgument,
    output: ProgramOption,
    freeze: FreezeOption = None,
    swap: SwapOption = None,
    rewrite: RewriteOption = None,
    no_rewrite: NoRewriteOption = None,
    deterministic_dropout: DropoutOption = False,
    external_weights: WeightsOption = False,
    with_inference: InferenceOption = False,
    prefer: PreferOption = "rewrite",
    prove: ValidateOption = True,
    steps: train.StepsOption = None,
    learning_rate: train.RateOption = None,
    optimizer: train.OptimizerOption = None,
    momentum: train.MomentumOption = None,
    weight_decay: train.DecayOption = None,
    betas: train.BetasOption = None,
    eps: train.EpsOption = None,
    on: train.OnOption = None,
    require: train.RequireOption = False,
    resume: train.ResumeOption = False,
    runner: train.RunnerOption = None,
    cores: train.CoresOption = None,
    shadow: inspect.ShadowOption = False,
    reproducers: inspect.ReproducersOption = None,
    inputs: opt.InputOption = None,
    loss: opt.LossOption = None,
    num_classes: opt.ClassesOption = None,
    dynamic_batch: opt.BatchOption = None,
    strict: opt.StrictOption = False,
    opset: opt.OpsetOption = None,
    kernel_library: opt.LibraryOption = None,
    output_format: opt.FormatOption = None,
    timeout: opt.TimeoutOption = None,
    memory_limit: opt.MemoryOption = None,
    config: opt.ConfigOption = None,
    quiet: opt.QuietOption = False,
    verbose: opt.VerboseOption = 0,
) -> int:
    """Export a model as a program that trains right on the unpatched runtime.

    Rewrites what has no right kernel, exactly; proves parity with eager PyTorch on this machine;
    writes the program and beside it a JSON card (versions, rewrites, kernels, reference trace).

    Exit code 0: written; 1: an op without rewrite, or no parity (nothing is written); 2: wrong
    usage; 3: the model could not be loaded or exported; 4: a compiler or the runtime is missing;
    70: a bug in graphcheck.
    """
    from graphcheck.api import export_target
    from graphcheck.export.types import ExportOptions

    if on and not prove:
        raise UsageError(
            "--on names where to prove the program, and --no-validate leaves the proof out.",
            "Leave out one of the two.",
        )
    settings = opt.configuration(target, config)
    chosen_format = opt.chosen_format(output_format, settings)
    request = opt.check_options(
        ExportOptions,
        settings,
        opt.checked_target(target),
        inputs=inputs,
        loss=loss,
        num_classes=num_classes,
        dynamic_batch=dynamic_batch,
        strict=strict,
        opset=opset,
        kernel_libraries=kernel_library,
        timeout=timeout,
        memory_limit=memory_limit,
        require=require,
        resume=resume,
        **train.training_options(
            settings,
            steps=steps,
            learning_rate=learning_rate,
            optimizer=optimizer,
            momentum=momentum,
            weight_decay=weight_decay,
            betas=betas,
            eps=eps,
            on=on,
            runner=runner,
            cores=cores,
        ),
        **inspect.shadow_settings(shadow=shadow, reproducers=reproducers),
        output=str(output),
        freeze=tuple(freeze or ()),
        swaps=tuple(swap or ()),
        rewrite=tuple(rewrite or ()),
        no_rewrite=tuple(no_rewrite or ()),
        deterministic_dropout=deterministic_dropout,
        external_weights=external_weights,
        with_inference=with_inference,
        prefer=prefer,
        prove=prove,
    )
    with Progress(-1 if quiet else verbose) as progress:
        result = export_target(request, progress)
    if chosen_format.name == "json":
        import msgspec

        emit(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")
    else:
        tell(result, quiet=quiet)
    return int(exit_code(result))


def exit_code(result: ExportResult) -> ExitCode:
    """0 when the program was written, 3 for a model that cannot be traced, 1 otherwise."""
    if result.written:
        return ExitCode.OK
    untraceable = result.failure_code.startswith("GC0") or result.failure_code == "GC503"
    return ExitCode.MODEL if untraceable else ExitCode.FINDINGS


def tell(result: ExportResult, *, quiet: bool = False) -> None:
    """The end of an export in words."""
    if result.card is not None and not quiet:
        card = result.card
        for swapped in card.swaps:
            where = some_of(swapped.modules, 3)
            emit_line(
                f"swap {swapped.name} (x{len(swapped.modules)}, {where}), {swapped.change}: "
                f"{'; '.join(swapped.what)}"
            )
        for record in card.rewrites:
            where = _some(record.modules)
            emit_line(f"rewrite {record.name} (x{record.count}, {where}): {record.reason}")
        for patched in card.patched:
            emit_line(f"needs the kernel library {patched}")
        for correction in card.corrections:
            emit_line(f"corrected: {correction}")
        if card.frozen:
            emit_line(f"frozen: {_some(card.frozen)}")
        for draw in card.random_inputs:
            shape = ",".join(map(str, draw.shape))
            emit_line(
                f"random input {draw.name}: {draw.dtype}[{shape}], {draw.distribution}, "
                f"for {draw.module}"
            )
        if card.inference is not None:
            emit_line(f"inference: {_told_inference(card.inference)}")
        for remark in card.remarks:
            emit_line(f"mind: {remark}")
        for guess in card.guesses:
            emit_line(f"guessed: {guess}")
        for item in card.not_checked:
            emit_line(f"NOT CHECKED: {item.what}: {item.why}")
        parity = card.verdict if card.verdict != "not run" else "NOT CHECKED (--no-validate)"
        if card.verdict == "drift":
            parity += f": {card.verdict_reason}"
        emit_line(f"parity with eager over {counted(result_steps(result), 'step')}: {parity}")
        if result.verdict is not None and result.verdict.shadow_checked:
            shadowed = next(s for s in result.verdict.stages if s.name == "shadow")
            emit_line(f"shadow execution: {shadowed.detail}")
        emit_line(
            f"{counted(len(card.kernels), 'kernel')}, "
            f"{counted(len(card.parameters), 'trainable parameter')}, "
            f"arena {byte_size(card.arena_bytes)}"
        )
    for finding in result.findings:
        emit_line(
            f"{finding.code} {finding.subject} ({finding.module or finding.source.module}): "
            f"{finding.message}"
        )
        for mend in finding.mends:
            kind = "exact" if mend.exact else "not exact"
            emit_line(f"    {mend.kind} {mend.name}, {kind}: {mend.description}")
    if result.written:
        *first, last = result.written
        emit_line(f"wrote {', '.join(first)} and {last}")
    else:
        for wrong in result.verdict.wrong if result.verdict is not None else ():
            emit_line(wrong_sentence(wrong, Path.cwd()))
            for detail in wrong_details(wrong, Path.cwd()):
                emit_line(f"    {detail}")
        complain(f"{result.target}: nothing was written: {result.failure}", result.hint)


def _told_inference(inference: Inference) -> str:
    inputs = ", ".join(
        f"{i.name} {i.dtype}[{','.join(map(str, i.shape))}]" for i in inference.inputs
    )
    shared = (
        f"method {inference.method}({inputs}) in eval mode shares planned memory "
        f"{inference.shared_memory} with forward"
    )
    if inference.error_before is None or inference.error_after is None:
        return f"{shared}; NOT CHECKED (--no-validate)"
    return (
        f"{shared}; off by {inference.error_before:.1e} of its largest entry before training and "
        f"{inference.error_after:.1e} after {counted(inference.steps, 'step')}, which moved it by "
        f"{inference.moved:.1e}"
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def result_steps(result: ExportResult) -> int:
    return result.verdict.steps if result.verdict is not None else 0


def _register(app: typer.Typer) -> None:
    app.command("export", short_help="Write a program that trains right, and its card.")(export)


VERB = Verb(name="export", order=3, register=_register)
