"""`graphcheck validate TARGET`: train in the runtime and in eager PyTorch, and compare."""

from __future__ import annotations

from typing import Annotated

import typer

from graphcheck.cli import options as opt
from graphcheck.cli.exits import exit_code_of_verdict
from graphcheck.cli.interface import Verb
from graphcheck.cli.output import check_output, emit, look, say
from graphcheck.cli.progress import Progress
from graphcheck.options import ValidateOptions
from graphcheck.report.words import verdict_summary

__all__ = ["VERB", "validate"]

StepsOption = Annotated[
    int | None, typer.Option("--steps", min=1, help="Training steps (default: 20).")
]
RateOption = Annotated[
    float | None, typer.Option("--learning-rate", "--lr", help="Learning rate (default: 0.05).")
]
OptimizerOption = Annotated[
    str | None, typer.Option("--optimizer", metavar="NAME", help="Optimizer (default: sgd).")
]
DeviceOption = Annotated[
    str, typer.Option("--device", metavar="NAME", help="Where the runtime runs.")
]


def validate(
    target: opt.TargetArgument,
    steps: StepsOption = None,
    learning_rate: RateOption = None,
    optimizer: OptimizerOption = None,
    device: DeviceOption = "host",
    inputs: opt.InputOption = None,
    loss: opt.LossOption = None,
    num_classes: opt.ClassesOption = None,
    dynamic_batch: opt.BatchOption = None,
    strict: opt.StrictOption = False,
    opset: opt.OpsetOption = None,
    kernel_library: opt.LibraryOption = None,
    fail_on: opt.FailOnOption = None,
    exit_zero: opt.ExitZeroOption = False,
    output_format: opt.FormatOption = None,
    output: opt.OutputOption = None,
    timeout: opt.TimeoutOption = None,
    memory_limit: opt.MemoryOption = None,
    config: opt.ConfigOption = None,
    quiet: opt.QuietOption = False,
    verbose: opt.VerboseOption = 0,
) -> int:
    """Train a model in the real runtime and in eager PyTorch, and compare every gradient.

    Exit code 0: match; 1: drift (a warning for --fail-on), diverged, or the runtime refused to
    run; 2: wrong usage; 3: the model could not be loaded or exported; 4: a compiler or the
    runtime is missing; 70: a bug in graphcheck.
    """
    settings = opt.configuration(target, config)
    chosen_format = opt.chosen_format(output_format, settings)
    level = opt.fail_on_of(fail_on, settings)
    check_output(output)
    request = opt.check_options(
        ValidateOptions,
        settings,
        opt.checked_target(target),
        inputs=inputs,
        loss=loss,
        num_classes=num_classes,
        dynamic_batch=dynamic_batch,
        strict=strict,
        opset=opset,
        kernel_libraries=kernel_library,
        select=None,
        ignore=None,
        timeout=timeout,
        memory_limit=memory_limit,
        steps=opt.chosen(steps, settings.steps, 20),
        learning_rate=opt.chosen(learning_rate, settings.learning_rate, 0.05),
        optimizer=opt.chosen(optimizer, settings.optimizer, "sgd"),
        on=(device,),
    )
    again = opt.options_again(inputs, loss, num_classes, dynamic_batch, opset, kernel_library)
    verbosity = -1 if quiet else verbose
    from graphcheck.api import validate_target

    with Progress(verbosity) as progress:
        verdict = validate_target(request, progress)
    emit(chosen_format.verdict(verdict, look(verbosity, output, again)), output)
    if output is not None and not quiet:
        say(f"{verdict.target}: {verdict_summary(verdict)} Report in {output}")
    return exit_code_of_verdict(verdict, level, exit_zero=exit_zero)


def _register(app: typer.Typer) -> None:
    app.command("validate", short_help="Train in the runtime and in eager PyTorch, and compare.")(
        validate
    )


VERB = Verb(name="validate", order=2, register=_register)
