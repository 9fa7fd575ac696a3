"""From a model to the programs that its files would be: for `oplist` and `memory`.

The model is rewritten as `graphcheck export` does, and not proven. This runs in a child process.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graphcheck.errors import ModelError
from graphcheck.options import CheckOptions
from graphcheck.workload.types import Workload

__all__ = ["LoweredFile", "LoweringReply", "LoweringRequest", "lower_programs"]


@dataclass(frozen=True)
class LoweringRequest:
    """`folder` is where the programs are written; `inference` asks for the method that predicts,
    `stock` for the program without rewrites."""

    options: CheckOptions
    folder: str
    inference: bool = False
    stock: bool = False


@dataclass(frozen=True)
class LoweredFile:
    """A program and, for each instruction of `forward`, the module and the rewrite it is from."""

    path: str
    modules: tuple[str, ...] = ()
    rewrites: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class LoweringReply:
    """The programs; what was not asked for is None."""

    program: LoweredFile
    inference: LoweredFile | None = None
    stock: LoweredFile | None = None
    guesses: tuple[str, ...] = ()


def lower_programs(workload: Workload, wanted: LoweringRequest) -> LoweringReply:
    """Write the programs. Raises ModelError for a model that cannot be exported or lowered."""
    from graphcheck.export.rewriting import look, rewrite
    from graphcheck.graph.capture import trace
    from graphcheck.opset.load import load, with_libraries
    from graphcheck.rewrite.buffers import cumulative_average, initial_state_passes
    from graphcheck.rewrite.metadata import correct
    from graphcheck.rewrite.plan import Choice
    from graphcheck.runtime.lower import lower
    from graphcheck.worker import progress

    folder = Path(wanted.folder)
    options = wanted.options
    opset = with_libraries(load(options.opset or "installed"), options.kernel_libraries)
    with cumulative_average():
        traced = trace(workload, strict=options.strict)
    state = rewrite(look(traced, workload, opset), workload, opset, Choice())
    joint = state.traced.joint
    lowered = lower(workload, traced=state.traced, passes=initial_state_passes(joint))
    if lowered.program is None:
        failure = lowered.failure
        told = failure.message if failure else "lowering gave no program"
        raise ModelError(told, failure.hint if failure else "", "GC011")
    path = folder / "model.pte"
    path.write_bytes(correct(lowered.program)[0])
    made = {node: item.rewrite.name for item, _, _ in state.records for node in item.new_nodes}
    program = LoweredFile(
        str(path),
        tuple(instruction.source.module for instruction in lowered.instructions),
        tuple(made.get(instruction.node, "") for instruction in lowered.instructions),
    )
    inference = stock = None
    if wanted.inference:
        progress("lowering the model for inference")
        inference = _inference(workload, folder)
    if wanted.stock and state.records:
        progress("lowering the model without rewrites")
        stock = _stock(workload, folder)
    return LoweringReply(program, inference, stock, workload.guesses)


def _stock(workload: Workload, folder: Path) -> LoweredFile:
    from graphcheck.runtime.lower import lower

    lowered = lower(workload, retry_without_ir_check=True)
    if lowered.program is None:
        failure = lowered.failure
        return LoweredFile("", failure=failure.message if failure else "lowering gave no program")
    path = folder / "stock.pte"
    path.write_bytes(lowered.program)
    return LoweredFile(
        str(path), tuple(instruction.source.module for instruction in lowered.instructions)
    )


def _inference(workload: Workload, folder: Path) -> LoweredFile:
    """The model's forward in eval mode, as a program of its own.

    A model that computes its own loss is taken as it is, loss included.
    """
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge

    from graphcheck.errors import UsageError
    from graphcheck.export.inference import Prediction, evaluating

    if workload.joint:
        return LoweredFile("", failure="a joint program has no model that predicts")
    try:
        predicting = Prediction.of(workload).workload
    except UsageError:
        predicting = workload
    try:
        with evaluating(predicting.module), torch.no_grad():
            exported = torch.export.export(
                predicting.module,
                predicting.inputs,
                predicting.kwargs or None,
                dynamic_shapes=predicting.dynamic_shapes,
                strict=False,
            ).run_decompositions({})
            edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
            program = bytes(edge.to_executorch().buffer)
    except Exception as error:
        lines = str(error).strip().splitlines()
        return LoweredFile("", failure=f"{type(error).__name__}: {lines[0] if lines else ''}")
    path = folder / "inference.pte"
    path.write_bytes(program)
    return LoweredFile(str(path))
