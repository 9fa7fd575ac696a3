"""`graphcheck validate TARGET`: train in the runtime and in eager PyTorch, and compare."""

from __future__ import annotations

import typer

from graphcheck.cli import options as opt
from graphcheck.cli import shadow as inspect
from graphcheck.cli import training as train
from graphcheck.cli.exits import exit_code_of_verdict
from graphcheck.cli.interface import Verb
from graphcheck.cli.output import check_output, emit, look, say
from graphcheck.cli.progress import Progress
from graphcheck.errors import UsageError
from graphcheck.options import ValidateOptions
from graphcheck.report.words import verdict_summary

__all__ = ["VERB", "validate"]


def validate(
    target: opt.ModelArgument = "",
    steps: train.StepsOption = None,
    learning_rate: train.RateOption = None,
    optimizer: train.OptimizerOption = None,
    momentum: train.MomentumOption = None,
    weight_decay: train.DecayOption = None,
    betas: train.BetasOption = None,
    eps: train.EpsOption = None,
    data: train.DataOption = None,
    on: train.OnOption = None,
    require: train.RequireOption = False,
    resume: train.ResumeOption = False,
    runner: train.RunnerOption = None,
    cores: train.CoresOption = None,
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
    shadow: inspect.ShadowOption = False,
    shadow_op: inspect.OpOption = None,
    shadow_module: inspect.ModuleOption = None,
    shadow_step: inspect.StepOption = None,
    reproducers: inspect.ReproducersOption = None,
    reproduce: inspect.ReproduceOption = None,
    ties: inspect.TiesOption = False,
    config: opt.ConfigOption = None,
    quiet: opt.QuietOption = False,
    verbose: opt.VerboseOption = 0,
) -> int:
    """Train a model in the real runtime and in eager PyTorch, and compare every gradient.

    Exit code 0: match; 1: drift (a warning for --fail-on), diverged, or the runtime refused to
    run; 2: wrong usage; 3: the model could not be loaded or exported; 4: a compiler, the runtime
    or a device (with --require any of them) is missing; 70: a bug in graphcheck.
    """
    if not target and reproduce is None:
        raise UsageError("validate needs a TARGET.", "graphcheck validate model.py")
    settings = opt.configuration(target, config)
    chosen_format = opt.chosen_format(output_format, settings)
    level = opt.fail_on_of(fail_on, settings)
    check_output(output, reads=(target, config, data, *(kernel_library or ())))
    verbosity = -1 if quiet else verbose
    if reproduce is not None:
        if target:
            raise UsageError(
                "--reproduce DIR takes no TARGET.",
                "graphcheck validate --reproduce DIR; the reproducer holds the op and its inputs.",
            )
        verdict = inspect.reproduced(reproduce, kernel_library, timeout)
        emit(chosen_format.verdict(verdict, look(verbosity, output, "")), output)
        return exit_code_of_verdict(verdict, level, exit_zero=exit_zero)
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
            data=data,
        ),
        **inspect.shadow_settings(
            shadow=shadow,
            ops=shadow_op,
            modules=shadow_module,
            steps=shadow_step,
            reproducers=reproducers,
            ties=ties,
        ),
    )
    again = opt.options_again(inputs, loss, num_classes, dynamic_batch, opset, kernel_library)
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
