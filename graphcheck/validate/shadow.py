"""Shadow execution: each instruction again in eager PyTorch, on the inputs it had in the runtime.

A wrong kernel shows at its own instruction, with no error carried over from before. Tolerances are
those of `validate.noise` for the single op. Instructions that draw random numbers are held to what
their draw must obey: a dropout to `out = in * mask / (1 - p)` and the share of survivors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from graphcheck.runtime.lower import Instruction, Lowered, kernel_nodes
from graphcheck.runtime.types import InstructionDump, TensorData
from graphcheck.validate.emitted import results_made, tensor_of
from graphcheck.validate.measure import measure
from graphcheck.validate.noise import AMPLITUDE, noise_mode, unit
from graphcheck.validate.reason import place
from graphcheck.validate.types import Shadow, WrongInstruction

__all__ = ["shadow"]

_PICKS = ("max_pool", "topk", "sort", "argmax", "argmin", "max.dim", "min.dim", "median")
"""Ops whose indices may differ among equal values: their values alone are compared."""


def shadow(lowered: Lowered, dump: Sequence[InstructionDump], step: int = 0) -> Shadow:
    """Check every dumped instruction of one step against eager."""
    result = Shadow()
    nodes = kernel_nodes(lowered.emitted)
    places = {instruction.index: instruction for instruction in lowered.instructions}
    for record in dump:
        known = places.get(record.instruction)
        if known is None or known.op != record.op or record.instruction not in nodes:
            _leave(result, record, "its node is not known")
            continue
        _check(result, record, nodes[record.instruction], known, step)
    return result


def _leave(result: Shadow, record: InstructionDump, why: str) -> None:
    result.unchecked.append((record.instruction, record.op, why))


def _check(
    result: Shadow, record: InstructionDump, node: Any, known: Instruction, step: int
) -> None:
    import torch

    schema = node.target._schema
    given = {
        argument.name: _value(node, position, argument, record.arguments)
        for position, argument in enumerate(schema.arguments)
        if not argument.is_out and position < len(record.arguments)
    }
    if torch.Tag.nondeterministic_seeded in _functional_tags(node):
        detail, error, tolerance = _random_fault(record, given)
        if detail is None:
            _leave(result, record, "it is random, and its draw obeys no rule known here")
            return
        result.checked += 1
        if detail:
            result.wrong.append(_wrong(record, known, step, error, tolerance, detail))
        return
    try:
        target = _callable(node)
        wanted = _run(target, given, record)
        if len(wanted) != len(record.outputs):
            raise NotImplementedError("another number of results")
        fault = _fault(target, given, record, wanted)
    except Exception as error:
        _leave(result, record, f"eager cannot run it alone: {type(error).__name__}")
        return
    result.checked += 1
    if fault is not None:
        result.wrong.append(_wrong(record, known, step, *fault, ""))


def _fault(
    target: Any, given: Mapping[str, Any], record: InstructionDump, wanted: Sequence[Any]
) -> tuple[float, float] | None:
    """Relative error and tolerance of the first result that is off by more than rounding."""
    tolerances: list[float] | None = None
    for index, (made, right) in enumerate(zip(record.outputs, wanted, strict=True)):
        if right is None:
            continue
        floating = right.dtype.is_floating_point
        if not floating and any(mark in record.op for mark in _PICKS):
            continue
        found = measure(made.array, _numpy(right))
        tolerance = AMPLITUDE * unit(right.dtype) * found.scale if floating else 0.0
        if not (found.absolute <= tolerance) and floating:
            # Most results are this close; only for the others is the rounding of the op measured.
            tolerances = tolerances or _tolerances(target, given, record, wanted)
            tolerance = max(tolerance, tolerances[index])
        if not (found.absolute <= tolerance):
            scale = found.scale or 1.0
            return found.absolute / scale, tolerance / scale
    return None


def _functional_tags(node: Any) -> Sequence[Any]:
    """Tags of the op and of its functional overloads: out variants do not always carry them."""
    tags: list[Any] = list(node.target.tags)
    packet = node.target.overloadpacket
    for overload in packet.overloads():
        tags += getattr(packet, overload).tags
    return tags


def _value(node: Any, position: int, argument: Any, dumped: Sequence[Any]) -> Any:
    """A constant as the graph has it, a computed value as the runtime had it."""
    import torch

    if position < len(node.args) and not argument.kwarg_only:
        held = node.args[position]
    else:
        held = node.kwargs.get(argument.name, argument.default_value)
    computed = isinstance(held, torch.fx.Node) or (
        isinstance(held, (list, tuple)) and any(isinstance(item, torch.fx.Node) for item in held)
    )
    return _restore(dumped[position]) if computed else held


def _restore(value: Any) -> Any:
    if isinstance(value, TensorData):
        return tensor_of(value)
    if isinstance(value, (list, tuple)):
        return [_restore(item) for item in value]
    return value


def _callable(node: Any) -> Any:
    """The out variant itself, or the functional op where some of its results are masked out."""
    target = node.target
    if all(results_made(node)):
        return target
    names = [argument.name for argument in target._schema.arguments if not argument.is_out]
    packet = target.overloadpacket
    for overload in packet.overloads():
        found = getattr(packet, overload)
        if [argument.name for argument in found._schema.arguments] == names:
            return found
    raise NotImplementedError("no functional overload")


def _run(
    target: Any, given: Mapping[str, Any], record: InstructionDump, mode: Any = None
) -> list[Any]:
    """The op in eager on copies of the inputs; its results, None for a masked one."""
    import copy
    from contextlib import nullcontext

    import torch

    values = copy.deepcopy(dict(given))
    outs = [argument.name for argument in target._schema.arguments if argument.is_out]
    dtypes = [getattr(torch, output.dtype) for output in record.outputs]
    if len(outs) == len(dtypes):
        for name, dtype in zip(outs, dtypes, strict=True):
            values[name] = torch.empty(0, dtype=dtype)
    elif outs:
        raise NotImplementedError("another number of results")
    with torch.no_grad(), mode or nullcontext():
        results = target(**values)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _tolerances(
    target: Any, given: Mapping[str, Any], record: InstructionDump, wanted: Sequence[Any]
) -> list[float]:
    """Largest absolute error rounding explains, for each result; 0 for one that is not floating."""
    totals = [0.0] * len(wanted)
    for pair in range(2):
        changes = [0.0] * len(wanted)
        for sign in (1, -1):
            moved = _run(target, given, record, noise_mode(sign, 31 + pair))
            for index, (other, right) in enumerate(zip(moved, wanted, strict=True)):
                if right is not None and right.dtype.is_floating_point:
                    changes[index] += _size(_numpy(other) - _numpy(right))
        totals = [max(total, change) for total, change in zip(totals, changes, strict=True)]
    return totals


def _numpy(tensor: Any) -> Any:
    return (tensor.double() if tensor.dtype.is_floating_point else tensor).detach().numpy()


def _size(array: Any) -> float:
    import numpy

    finite = numpy.abs(array[numpy.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def _random_fault(
    record: InstructionDump, given: Mapping[str, Any]
) -> tuple[str | None, float, float]:
    """What is wrong with a random instruction: "" if nothing is, None if no rule is known."""
    name = record.op.partition("::")[2].partition(".")[0]
    if name == "native_dropout":
        return _dropout_fault(record, given)
    array = record.outputs[0].array.astype("float64") if record.outputs else None
    if array is None or array.size == 0:
        return None, 0.0, 0.0
    count = array.size
    if name in ("rand", "rand_like"):
        if not (array.min() >= 0 and array.max() <= 1):
            return "draws outside of [0, 1)", math.inf, 0.0
        return _mean_fault(array, 0.5, math.sqrt(1 / 12 / count))
    if name in ("randn", "randn_like"):
        return _mean_fault(array, 0.0, math.sqrt(1 / count))
    if name == "bernoulli" and isinstance(given.get("p"), float):
        p = given["p"]
        return _mean_fault(array, p, math.sqrt(p * (1 - p) / count))
    return None, 0.0, 0.0


def _mean_fault(array: Any, mean: float, deviation: float) -> tuple[str, float, float]:
    """The mean of many draws, within six standard deviations of it."""
    off, limit = abs(float(array.mean()) - mean), 6 * deviation
    if not (off <= limit):
        return f"the mean of its draws is {float(array.mean()):.4g}, not {mean:g}", off, limit
    return "", off, limit


def _dropout_fault(record: InstructionDump, given: Mapping[str, Any]) -> tuple[str, float, float]:
    import numpy

    p = float(given["p"])
    source = _numpy(given["input"]).astype("float64")
    made, mask = (output.array.astype("float64") for output in record.outputs[:2])
    train = given.get("train")
    if p >= 1 or (train is not None and not train):
        return "", 0.0, 0.0
    wanted = source * mask / (1 - p)
    found = measure(made, wanted)
    dtype = given["input"].dtype
    tolerance = 2 * AMPLITUDE * unit(dtype) * found.scale
    if not (found.absolute <= tolerance):
        kept = (mask != 0) & (source != 0)
        ratio = float(numpy.median(made[kept] / source[kept])) if kept.any() else math.nan
        detail = (
            f"survivors are multiplied by {ratio:.4g}, not by 1/(1-p) = {1 / (1 - p):.4g}"
            if numpy.allclose(made, source * mask * ratio, rtol=1e-3)
            else "the output is not input * mask / (1-p)"
        )
        scale = found.scale or 1.0
        return detail, found.absolute / scale, tolerance / scale
    return _mean_fault(mask, 1 - p, math.sqrt(p * (1 - p) / max(1, mask.size)))


def _wrong(
    record: InstructionDump,
    known: Instruction,
    step: int,
    error: float,
    tolerance: float,
    detail: str,
) -> WrongInstruction:
    return WrongInstruction(
        instruction=record.instruction,
        op=record.op,
        module=known.source.module,
        source=place(known.source),
        step=step,
        error=error,
        tolerance=tolerance,
        detail=detail,
    )
