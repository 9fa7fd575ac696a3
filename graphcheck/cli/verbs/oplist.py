"""`graphcheck oplist TARGET`: the operators that a selective build needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphcheck.cli import options as opt
from graphcheck.cli.interface import Verb
from graphcheck.cli.output import check_output, emit, say
from graphcheck.cli.progress import Progress
from graphcheck.counted import counted
from graphcheck.errors import ExitCode, UsageError
from graphcheck.options import CheckOptions

__all__ = ["VERB", "oplist"]

_FORMATS = "text, yaml, cmake or json"

ListFormatOption = Annotated[
    str,
    typer.Option("--format", metavar="FORMAT", help=f"{_FORMATS}."),
]
CompareOption = Annotated[
    Path | None,
    typer.Option(
        "--compare",
        metavar="BUILD.yaml",
        help="Name what this selective build lacks (selected_operators.yaml, functions.yaml).",
    ),
]


def oplist(
    target: opt.TargetArgument,
    form: ListFormatOption = "text",
    compare: CompareOption = None,
    inputs: opt.InputOption = None,
    loss: opt.LossOption = None,
    num_classes: opt.ClassesOption = None,
    dynamic_batch: opt.BatchOption = None,
    strict: opt.StrictOption = False,
    opset: opt.OpsetOption = None,
    kernel_library: opt.LibraryOption = None,
    output: opt.OutputOption = None,
    timeout: opt.TimeoutOption = None,
    memory_limit: opt.MemoryOption = None,
    config: opt.ConfigOption = None,
    quiet: opt.QuietOption = False,
    verbose: opt.VerboseOption = 0,
) -> int:
    """List the operators that a program needs: for inference, backward, and in the runtime.

    A model is lowered as `graphcheck export` does, rewrites included. YAML has the shape of
    ExecuTorch's selected_operators.yaml, with the kernel key of every call.

    Exit code 0: listed, or the build has all; 1: the build lacks operators or kernels; 2: wrong
    usage; 3: the program or the model could not be read; 70: a bug in graphcheck.
    """
    from graphcheck.artefacts.oplist import lacks, read_build
    from graphcheck.artefacts.oplist_text import FORMATS, lacks_json, lacks_text

    if form not in FORMATS:
        raise UsageError(f"--format: there is no format `{form}`.", f"Choose {_FORMATS}.")
    if compare is not None and form not in ("text", "json"):
        raise UsageError(
            f"--compare tells what a build lacks, which is no {form}.", "Choose text or json."
        )
    settings = opt.configuration(target, config)
    check_output(output, reads=(target, config, compare, *(kernel_library or ())))
    build = read_build(compare) if compare is not None else None
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
    from graphcheck.api import operators_target

    with Progress(-1 if quiet else verbose) as progress:
        wanted = operators_target(request, progress)
    if build is None:
        emit(FORMATS[form](wanted), output)
        if output is not None and not quiet:
            say(f"{counted(len(wanted.operators), 'operator')} of {target} written to {output}")
        return ExitCode.OK
    found = lacks(wanted, build)
    tell = lacks_json if form == "json" else lacks_text
    emit(tell(found, wanted, str(compare)), output)
    return ExitCode.FINDINGS if found else ExitCode.OK


def _register(app: typer.Typer) -> None:
    app.command("oplist", short_help="List the operators that a selective build needs.")(oplist)


VERB = Verb(name="oplist", order=6, register=_register)
