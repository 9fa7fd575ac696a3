"""`graphcheck check TARGET`: every problem of a model in one run."""

from __future__ import annotations

import typer

from graphcheck.cli import options as opt
from graphcheck.cli.exits import exit_code_of_report
from graphcheck.cli.interface import Verb
from graphcheck.cli.output import check_output, emit, look, say
from graphcheck.cli.progress import Progress
from graphcheck.options import CheckOptions
from graphcheck.report.words import report_summary

__all__ = ["VERB", "check"]


def check(
    target: opt.TargetArgument,
    inputs: opt.InputOption = None,
    loss: opt.LossOption = None,
    num_classes: opt.ClassesOption = None,
    dynamic_batch: opt.BatchOption = None,
    strict: opt.StrictOption = False,
    opset: opt.OpsetOption = None,
    kernel_library: opt.LibraryOption = None,
    stamp: opt.StampOption = None,
    select: opt.SelectOption = None,
    ignore: opt.IgnoreOption = None,
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
    """Check a model for training on ExecuTorch and print every problem. The default verb.

    Exit code 0: no findings at or above --fail-on; 1: findings; 2: wrong usage; 3: the model
    could not be checked; 4: the runtime is missing; 70: a bug in graphcheck.
    """
    settings = opt.configuration(target, config)
    chosen_format = opt.chosen_format(output_format, settings)
    level = opt.fail_on_of(fail_on, settings)
    check_output(output, reads=(target, config, *(kernel_library or ()), *(stamp or ())))
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
        select=select,
        ignore=ignore,
        timeout=timeout,
        memory_limit=memory_limit,
        stamps=tuple(str(path.absolute()) for path in stamp or ()),
    )
    again = opt.options_again(inputs, loss, num_classes, dynamic_batch, opset, kernel_library)
    verbosity = -1 if quiet else verbose
    from graphcheck.api import check_target

    with Progress(verbosity) as progress:
        report = check_target(request, progress)
    emit(chosen_format.report(report, look(verbosity, output, again)), output)
    if output is not None and not quiet:
        say(f"{report_summary(report)} Report in {output}")
    return exit_code_of_report(report, level, exit_zero=exit_zero)


def _register(app: typer.Typer) -> None:
    app.command("check", short_help="Check a model and print every problem (default verb).")(check)


VERB = Verb(name="check", order=1, register=_register)
