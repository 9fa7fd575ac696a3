"""What child processes do for `graphcheck.api`: load the user's model, and work on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from graphcheck.errors import ModelError
from graphcheck.options import CheckOptions, ValidateOptions
from graphcheck.report.types import Report
from graphcheck.validate.types import Verdict

if TYPE_CHECKING:
    from graphcheck.artefacts.lowering import LoweringReply
    from graphcheck.export.types import ExportResult

__all__ = ["check_task", "export_task", "lower_task", "validate_task"]


def check_task(request: dict[str, Any]) -> Report:
    """Worker task of `check_target`."""
    from graphcheck.pipeline import check_workload

    options = msgspec.convert(request, CheckOptions)
    return check_workload(_load(options), options)


def validate_task(request: dict[str, Any]) -> Verdict:
    """Worker task of `validate_target`."""
    from graphcheck.validate.elsewhere import not_the_target
    from graphcheck.validate.run import validate_workload

    options = msgspec.convert(request, ValidateOptions)
    _check_libraries(options.kernel_libraries)
    elsewhere = not_the_target(options.opset)
    workload = _with_model(_load(options))
    if options.data:
        from graphcheck.workload.data import with_data

        workload = with_data(workload, options.data, options.steps)
    verdict = validate_workload(workload, options)
    verdict = replace(verdict, notes=(*verdict.notes, *elsewhere))
    if not options.ties:
        return verdict
    from graphcheck.validate.ties.measure import measure_ties
    from graphcheck.worker import progress

    return replace(verdict, ties=measure_ties(workload, progress=progress))


def export_task(request: dict[str, Any]) -> ExportResult:
    """Worker task of `export_target`."""
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions

    options = msgspec.convert(request, ExportOptions)
    workload = _load(options)
    return export_workload(_with_model(workload) if options.prove else workload, options)


def lower_task(request: dict[str, Any]) -> LoweringReply:
    """Worker task of `operators_target` and `memory_target`."""
    from graphcheck.artefacts.lowering import LoweringRequest, lower_programs

    wanted = msgspec.convert(request, LoweringRequest)
    return lower_programs(_load(wanted.options), wanted)


def _check_libraries(libraries: tuple[str, ...]) -> None:
    """Refuse a kernel library that cannot be loaded before the model is loaded. UsageError."""
    from pathlib import Path

    from graphcheck.opset.library import read_library

    for library in libraries:
        read_library(Path(library))


def _with_model(workload: Any) -> Any:
    """The workload, if it has a model that eager PyTorch can train. Raises ModelError."""
    if workload.joint:
        raise ModelError(
            f"{workload.target} is a joint program: there is no model that eager PyTorch could "
            "train to compare with.",
            "Give its forward program or its source; export works with --no-validate.",
        )
    return workload


def _load(options: CheckOptions) -> Any:
    from graphcheck.worker import progress
    from graphcheck.workload.load import load
    from graphcheck.workload.request import WorkloadRequest

    progress(f"loading {options.target}")
    return load(
        WorkloadRequest(
            target=options.target,
            inputs=options.inputs,
            loss=options.loss or "",
            dynamic_batch=options.dynamic_batch,
            num_classes=options.num_classes,
        )
    )
