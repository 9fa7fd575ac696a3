"""`graphcheck fix TARGET`: edit the source of a model so that its findings are mended."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from graphcheck.cli import options as opt
from graphcheck.cli.exits import FailOn, exit_code_of_report
from graphcheck.cli.interface import Verb
from graphcheck.cli.output import complain, emit
from graphcheck.cli.progress import Progress
from graphcheck.errors import ExitCode
from graphcheck.options import MOST_NUMBER
from graphcheck.report.words import headline, report_summary
from graphcheck.rules.dedupe import module_pattern
from graphcheck.swap.live import REMINDER

if TYPE_CHECKING:
    from graphcheck.fixing.types import Decision, FixResult

__all__ = ["VERB", "fix"]

SwapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--swap", metavar="NAME[=ARG]", help="Make only this swap, exact or not; repeatable."
    ),
]
GroupsOption = Annotated[
    int | None,
    typer.Option(
        "--groups", min=1, max=MOST_NUMBER, help="Groups of batch-norm-as-group-norm (default: 32)."
    ),
]
UnsafeOption = Annotated[
    bool, typer.Option("--unsafe-fixes", help="Also swaps that change what is trained.")
]
DiffOption = Annotated[
    bool, typer.Option("--diff", help="Show what would change and write nothing.")
]
DirtyOption = Annotated[
    bool, typer.Option("--allow-dirty", help="Edit files with changes that are not committed.")
]
_CHANGES = {"exact": "exact", "numerics": "changes numerics", "function": "changes the function"}
_REWRITTEN = "graphcheck export mends this without changing the model"


def fix(
    target: opt.TargetArgument,
    swap: SwapOption = None,
    groups: GroupsOption = None,
    unsafe: UnsafeOption = False,
    diff: DiffOption = False,
    allow_dirty: DirtyOption = False,
    inputs: opt.InputOption = None,
    loss: opt.LossOption = None,
    num_classes: opt.ClassesOption = None,
    dynamic_batch: opt.BatchOption = None,
    strict: opt.StrictOption = False,
    opset: opt.OpsetOption = None,
    kernel_library: opt.LibraryOption = None,
    select: opt.SelectOption = None,
    ignore: opt.IgnoreOption = None,
    fail_on: opt.FailOnOption = None,
    exit_zero: opt.ExitZeroOption = False,
    output_format: opt.FormatOption = None,
    timeout: opt.TimeoutOption = None,
    memory_limit: opt.MemoryOption = None,
    config: opt.ConfigOption = None,
    quiet: opt.QuietOption = False,
    verbose: opt.VerboseOption = 0,
) -> int:
    """Edit the source of a model so that its findings are mended, then check it again.

    Makes exact swaps only, unless --unsafe-fixes or --swap asks for others; says why for all it
    leaves. Modules of a library are swapped by a call of make_trainable in your file.

    Exit code 0: nothing is left (with --diff: nothing would change); 1: findings are left, a diff
    would change something, or a fix was taken back; 2: wrong usage or uncommitted changes; 3: the
    model could not be checked; 4: the runtime is missing; 70: a bug in graphcheck.
    """
    from graphcheck.api import fix_target
    from graphcheck.fixing.types import FixOptions

    settings = opt.configuration(target, config)
    chosen_format = opt.chosen_format(output_format, settings)
    level = opt.fail_on_of(fail_on, settings)
    picks = list(swap or ())
    if groups is not None:
        name = "batch-norm-as-group-norm"
        picks = [pick for pick in picks if pick != name] + [f"{name}={groups}"]
    request = opt.check_options(
        FixOptions,
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
        swaps=tuple(picks),
        unsafe=unsafe,
        diff=diff,
        allow_dirty=allow_dirty,
    )
    with Progress(-1 if quiet else verbose) as progress:
        result = fix_target(request, progress)
    if chosen_format.name == "json":
        import msgspec

        emit(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")
    else:
        emit("".join(line + "\n" for line in told(result, diff=diff, quiet=quiet)))
    if result.failure:
        complain(f"{target}: {result.failure}", "The files are as they were.")
    return int(exit_code(result, level, diff=diff, exit_zero=exit_zero))


def exit_code(
    result: FixResult, level: FailOn, *, diff: bool = False, exit_zero: bool = False
) -> ExitCode:
    """As the help of the verb says."""
    if result.failure:
        return ExitCode.FINDINGS
    if diff and result.left is None:
        return ExitCode.FINDINGS if result.files else ExitCode.OK
    assert result.left is not None
    return exit_code_of_report(result.left, level, exit_zero=exit_zero)


def told(result: FixResult, *, diff: bool = False, quiet: bool = False) -> Iterator[str]:
    """The end of a fix in words, line by line."""
    if diff and result.diff:
        yield result.diff.rstrip("\n")
    if not quiet and not result.failure:
        for modules, text in _grouped((d.module, _applied(d)) for d in result.applied):
            yield f"{'would fix' if diff else 'fixed'} {modules}: {text}"
    if not quiet:
        for modules, text in _grouped((d.module, _skipped(d)) for d in result.skipped):
            yield f"skipped {modules}: {text}"
    if result.failure:
        yield f"{result.target}: nothing was changed."
        return
    if result.left is not None and result.left.failed:
        for finding in result.left.findings:
            yield headline(finding)
            yield from (f"    {line}" for line in finding.evidence)
    elif diff:
        names = ", ".join(map(_shown, result.files))
        yield f"would change {names}" if names else "nothing would change"
        return
    elif not result.files:
        yield "nothing was changed"
    else:
        yield f"wrote {', '.join(map(_shown, result.files))}"
        if result.compared:
            yield result.compared
        if not quiet:
            yield REMINDER
    if result.left is not None:
        yield f"left: {report_summary(result.left)}"


def _grouped(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Modules of which the same is said, as one pattern, and what is said."""
    groups: dict[str, dict[str, None]] = {}
    for module, text in lines:
        groups.setdefault(text, {})[module] = None
    for text, named in groups.items():
        modules = list(named)
        count = f" (x{len(modules)})" if len(modules) > 1 else ""
        yield (module_pattern(modules) or "the model itself") + count, text


def _applied(decision: Decision) -> str:
    place = _shown(decision.file) + (f":{decision.line}" if decision.line else "")
    how = " by a call of make_trainable" if decision.form == "call" else ""
    return f"{decision.swap} ({_CHANGES[decision.change]}){how} in {place}: {decision.what}"


def _skipped(decision: Decision) -> str:
    code = f"{decision.code} {decision.subject}" if decision.code else decision.swap
    tail = f"; {_REWRITTEN}" if decision.rewritten else ""
    return f"{code}: {decision.reason}{tail}"


def _shown(file: str) -> str:
    shown = os.path.relpath(file)
    return file if shown.startswith("..") else shown


def _register(app: typer.Typer) -> None:
    app.command("fix", short_help="Edit the source so that findings are mended.")(fix)


VERB = Verb(name="fix", order=3, register=_register)
