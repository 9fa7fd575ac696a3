"""The public API, and the form of it that keeps the user's model in a child process.

`check` and `validate` work on a live module in this process. `check_target` and `validate_target`
take a target by name and do all the work in a worker, so that a model that prints, exits, hangs,
crashes or eats the memory becomes an answer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphcheck.arguments import checked_module, checked_options, names_of, path_of
from graphcheck.errors import ModelError
from graphcheck.options import CheckOptions, ValidateOptions
from graphcheck.process import WorkerFailure, run_worker
from graphcheck.report.types import Report
from graphcheck.validate.types import Stage, Verdict

if TYPE_CHECKING:
    from graphcheck.artefacts.lowering import LoweringReply, LoweringRequest
    from graphcheck.artefacts.memory_types import MemoryReport
    from graphcheck.artefacts.oplist import OperatorList
    from graphcheck.export.types import ExportOptions, ExportResult
    from graphcheck.fixing.types import FixOptions, FixResult

__all__ = [
    "check",
    "check_target",
    "export",
    "export_target",
    "fix",
    "fix_target",
    "is_program",
    "memory_target",
    "operators_target",
    "validate",
    "validate_target",
]

Progress = Callable[[str], None]


def check(
    module: Any,
    inputs: Any,
    *,
    loss: Any = None,
    targets: Any = None,
    options: CheckOptions | None = None,
) -> Report:
    """Check a live `nn.Module` for training on ExecuTorch.

    `inputs` is a tensor, a tuple of positional or a dict of named example inputs. `loss` is called
    with output and `targets`, or the name of a loss; without it the module's output is the loss.
    Raises ModelError when the inputs do not fit; what cannot be exported is in the report.
    """
    from graphcheck.pipeline import check_workload
    from graphcheck.report.in_python import in_python
    from graphcheck.workload.load import from_module

    if options is not None:
        options = checked_options(options, CheckOptions, "check")
    workload = from_module(module, inputs, loss=loss, targets=targets)
    report = check_workload(workload, options or CheckOptions(target=workload.target))
    return replace(report, next_command=in_python(report.next_command, loss, targets))


def validate(
    module: Any,
    inputs: Any,
    *,
    loss: Any = None,
    targets: Any = None,
    options: ValidateOptions | None = None,
) -> Verdict:
    """Train a live `nn.Module` in the runtime and in eager PyTorch, and compare.

    Arguments as for `check`. The module's own weights are not changed.
    """
    from graphcheck.report.following import verdict_next_command
    from graphcheck.report.in_python import in_python
    from graphcheck.validate.run import validate_workload
    from graphcheck.workload.load import from_module

    if options is not None:
        options = checked_options(options, ValidateOptions, "validate")
    workload = from_module(module, inputs, loss=loss, targets=targets)
    verdict = validate_workload(workload, options or ValidateOptions(target=workload.target))
    return replace(verdict, next_command=in_python(verdict_next_command(verdict), loss, targets))


def export(
    module: Any,
    inputs: Any,
    output: str | os.PathLike[str],
    *,
    loss: Any = None,
    targets: Any = None,
    options: ExportOptions | None = None,
) -> ExportResult:
    """Export a live `nn.Module` as a program that trains right, with its card.

    Arguments as for `check`; `output` is the path of the program, which stands for that of the
    options. The module is not changed: swaps and freezing are made in a copy. Raises UsageError for
    options that cannot be used, ModelError for a model that cannot be exported.
    """
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions
    from graphcheck.graph.gradient_hooks import copied_with_hooks
    from graphcheck.workload.load import from_module

    place = path_of(output, "output", "net.pte")
    if options is not None:
        options = checked_options(options, ExportOptions, "export")
    twin = copied_with_hooks(checked_module(module))
    workload = from_module(twin, inputs, loss=loss, targets=targets)
    wanted = options or ExportOptions(target=workload.target)
    return export_workload(workload, replace(wanted, output=place))


def check_target(options: CheckOptions, on_progress: Progress | None = None) -> Report:
    """Check a target in a child process; whatever happens to it, the answer is a report.

    A program (`.pte`) is read in this process. Raises UsageError for options that cannot be used,
    DeviceError for a missing runtime.
    """
    from graphcheck.pipeline import failure_report

    try:
        if is_program(options.target):
            from graphcheck.artefacts.check import check_program

            return check_program(options)
        return run_worker(
            "graphcheck.tasks:check_task",
            options,
            Report,
            timeout=options.timeout,
            memory_limit=options.memory_limit,
            on_progress=on_progress,
        )
    except ModelError as error:
        problem = error
    except WorkerFailure as failure:
        problem = _explain(failure, options)
    return failure_report(options, [problem])


def validate_target(options: ValidateOptions, on_progress: Progress | None = None) -> Verdict:
    """Validate a target in a child process; a model that cannot be loaded is `not run`."""
    from graphcheck.judging import versions

    try:
        return run_worker(
            "graphcheck.tasks:validate_task",
            options,
            Verdict,
            timeout=_whole_time(options),
            memory_limit=options.memory_limit,
            on_progress=on_progress,
        )
    except ModelError as error:
        problem = error
    except WorkerFailure as failure:
        problem = _explain(failure, options)
    return Verdict(
        target=options.target,
        verdict="not run",
        reason=problem.message,
        stages=(Stage("load the model", "fail", problem.message),),
        notes=(problem.hint,) if problem.hint else (),
        versions=versions(),
    )


def export_target(options: ExportOptions, on_progress: Progress | None = None) -> ExportResult:
    """Export a target in a child process; nothing is written unless the program is proven right.

    Raises UsageError for options that cannot be used, DeviceError for a missing runtime.
    """
    from graphcheck.export.output import checked_output
    from graphcheck.export.types import ExportResult

    checked_output(options)
    try:
        return run_worker(
            "graphcheck.tasks:export_task",
            options,
            ExportResult,
            timeout=_whole_time(options),
            memory_limit=options.memory_limit,
            on_progress=on_progress,
        )
    except ModelError as error:
        problem = error
    except WorkerFailure as failure:
        problem = _explain(failure, options)
    return ExportResult(
        options.target, failure=problem.message, hint=problem.hint, failure_code=problem.code
    )


def operators_target(options: CheckOptions, on_progress: Progress | None = None) -> OperatorList:
    """The operators of a program (`.pte`), or of the one that a model is exported to.

    Raises ModelError for what cannot be read or lowered.
    """
    from graphcheck.artefacts.lowering import LoweringRequest
    from graphcheck.artefacts.oplist import operators_of
    from graphcheck.graph.pte import read_pte

    if is_program(options.target):
        return operators_of(read_pte(options.target), options.target)
    with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
        lowered = _lower(LoweringRequest(options, folder), on_progress)
        return operators_of(read_pte(lowered.program.path), options.target)


def memory_target(options: CheckOptions, on_progress: Progress | None = None) -> MemoryReport:
    """The memory that a program (`.pte`) plans, or the one that a model is exported to.

    Raises ModelError for what cannot be read or lowered.
    """
    from graphcheck.artefacts.lowering import LoweringRequest
    from graphcheck.artefacts.memory_run import memory_of_file, memory_of_lowered

    if is_program(options.target):
        return memory_of_file(options.target)
    with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
        request = LoweringRequest(options, folder, inference=True, stock=True)
        return memory_of_lowered(options.target, _lower(request, on_progress))


def _lower(request: LoweringRequest, on_progress: Progress | None) -> LoweringReply:
    from graphcheck.artefacts.lowering import LoweringReply

    options = request.options
    try:
        return run_worker(
            "graphcheck.tasks:lower_task",
            request,
            LoweringReply,
            timeout=options.timeout,
            memory_limit=options.memory_limit,
            on_progress=on_progress,
        )
    except WorkerFailure as failure:
        raise _explain(failure, options) from failure


def is_program(target: str) -> bool:
    """Whether a target is a program that is read, not a model that is loaded."""
    return target.lower().endswith(".pte")


def fix(
    target: str | os.PathLike[str],
    *,
    swaps: str | tuple[str, ...] | list[str] = (),
    unsafe: bool = False,
    diff: bool = False,
    options: FixOptions | None = None,
) -> FixResult:
    """Edit the source of a model so that its findings are mended: `graphcheck fix`.

    `target` is `model.py` or `model.py:Net`. `swaps` picks swaps by name, `unsafe` allows those
    that change training, `diff` writes nothing. Raises UsageError for a file with changes that
    are not committed (unless the options allow it), ModelError for a model that cannot be loaded.
    """
    from graphcheck.fixing.types import FixOptions

    file = path_of(target, "target", "model.py")
    picks = names_of(swaps, "swaps", "batch-norm-as-group-norm")
    if options is not None:
        options = checked_options(options, FixOptions, "fix")
    wanted = options or FixOptions(target=file)
    wanted = replace(wanted, target=file, swaps=picks, unsafe=unsafe, diff=diff)
    return fix_target(checked_options(wanted, FixOptions, "fix"))


def fix_target(options: FixOptions, on_progress: Progress | None = None) -> FixResult:
    """Fix a target: the model is looked at in child processes, the source is edited here.

    Raises as `fix` does.
    """
    from graphcheck.fixing.run import run_fix
    from graphcheck.fixing.types import Look

    def look(wanted: FixOptions) -> Look:
        try:
            return run_worker(
                "graphcheck.fixing.look:look_task",
                wanted,
                Look,
                timeout=wanted.timeout,
                memory_limit=wanted.memory_limit,
                on_progress=on_progress,
            )
        except WorkerFailure as failure:
            raise _explain(failure, wanted) from failure

    return run_fix(options, look)


def _whole_time(options: ValidateOptions) -> float:
    """The time limit of all: each other device than this machine has one of its own."""
    return options.timeout * (1 + sum(name != "host" for name in options.on))


def _explain(failure: WorkerFailure, options: CheckOptions) -> ModelError:
    """The sentence for a child process that gave no answer; a bug of ours raises RuntimeError."""
    from graphcheck.graph.diagnose import diagnose_worker

    if failure.kind == "crash" and "Traceback" in failure.output:
        raise RuntimeError(f"{failure.detail}\n{failure.output}")
    return diagnose_worker(failure, options.target)
