"""`graphcheck memory TARGET`: what training takes, when, and for what."""

from __future__ import annotations

import typer

from graphcheck.cli import options as opt
from graphcheck.cli.interface import Verb
from graphcheck.cli.output import check_output, emit, look, say
from graphcheck.cli.progress import Progress
from graphcheck.errors import ExitCode, UsageError
from graphcheck.options import CheckOptions

__all__ = ["VERB", "memory"]


def memory(
    target: opt.TargetArgument,
    inputs: opt.InputOption = None,
    loss: opt.LossOption = None,
    num_classes: opt.ClassesOption = None,
    dynamic_batch: opt.BatchOption = None,
    strict: opt.StrictOption = False,
    opset: opt.OpsetOption = None,
    kernel_library: opt.LibraryOption = None,
    output_format: opt.FormatOption = None,
    output: opt.OutputOption = None,
    timeout: opt.TimeoutOption = None,
    memory_limit: opt.MemoryOption = None,
    config: opt.ConfigOption = None,
    quiet: opt.QuietOption = False,
    verbose: opt.VerboseOption = 0,
) -> int:
    """Tell what memory a training step plans: weights, gradients, activations, and the peak.

    A model is lowered as `graphcheck export` does, and compared with its inference and with the
    program without rewrites. A program is read; its plan is in the file.

    Exit code 0: told; 2: wrong usage; 3: the program or the model could not be read; 70: a bug in
    graphcheck.
    """
    settings = opt.configuration(target, config)
    form = output_format or "text"
    if form not in ("text", "json"):
        raise UsageError(f"memory has no output format `{form}`.", "Choose text or json.")
    check_output(output, reads=(target, config, *(kernel_library or ())))
    request = opt.check_options(
        CheckOptions,
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
    )
    from graphcheck.api import memory_target
    from graphcheck.artefacts.memory_text import memory_json, memory_text

    verbosity = -1 if quiet else verbose
    with Progress(verbosity) as progress:
        report = memory_target(request, progress)
    shown = look(verbosity, output)
    emit(memory_json(report) if form == "json" else memory_text(report, shown), output)
    if output is not None and not quiet:
        say(f"memory of {target} written to {output}")
    return ExitCode.OK


def _register(app: typer.Typer) -> None:
    app.command("memory", short_help="Tell what memory training takes, when, and for what.")(memory)


VERB = Verb(name="memory", order=6, register=_register)
