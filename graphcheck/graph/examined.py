"""What a watched eager pass (`graphcheck.graph.examine`) means, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.graph.examine import Cut, Examination, OutputFact
from graphcheck.graph.precheck import Problem
from graphcheck.workload.heads import shown_output
from graphcheck.workload.probe import probe
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import Frame, describe_exception

__all__ = ["at", "problems_seen"]

_MOST_NAMES = 4


def at(frame: Frame | None) -> str:
    """` (model.py:12 `code`)`, or nothing."""
    return f" ({frame})" if frame else ""


def problems_seen(seen: Examination, workload: Workload) -> Iterator[Problem]:
    """Problems of a watched pass: what failed, what is written, what is wrong with the loss."""
    if seen.error is not None:
        yield _of_the_loss(seen.error, workload) or Problem(
            seen.error.code, seen.error.message, seen.error.hint
        )
    by_place: dict[tuple[str, Frame | None], list[str]] = {}
    for write in seen.writes:
        by_place.setdefault((write.op, write.frame), []).append(write.parameter)
    for (op, frame), parameters in by_place.items():
        names = _listed(list(dict.fromkeys(parameters)))
        how = f"written in place by {op}" if op else "replaced by another tensor"
        renorm = " Embedding(max_norm=...) does this." if op == "embedding_renorm_" else ""
        yield Problem(
            "GC008",
            f"Parameter {names} is {how} in forward{at(frame)}.{renorm}",
            "Use a changed copy of it in forward, keep running values in a buffer, or change it in "
            "the training loop between steps.",
            frame=frame,
        )
    if seen.error is None and (seen.outputs or not seen.writes):
        yield from _loss_problems(seen, workload)


def _of_the_loss(error: ModelError, workload: Workload) -> Problem | None:
    """The problem of a loss that does not take the output of forward, which is no tensor."""
    import torch

    predicts = getattr(workload.module, "predicts", None)
    if predicts is None or not isinstance(error.__cause__, (TypeError, AttributeError)):
        return None
    model = workload.module.get_submodule(workload.prefix.rstrip("."))
    try:
        output = probe(model, workload.inputs[:predicts], workload.kwargs)
    except ModelError:
        return None
    if isinstance(output, torch.Tensor):
        return None
    why = describe_exception(error.__cause__, 200).rstrip(".")
    return Problem(
        "GC014",
        f"forward returns {shown_output(output)}, which the loss cannot take: {why}.",
        f"Give a loss function of your own that takes {_taken(output)} and the targets: get_loss() "
        "in the model file returns it, or pass it as loss=.",
    )


def _taken(output: Any) -> str:
    kind = type(output).__name__
    return f"the {kind}" + (
        f" (`def loss(output, target)` with `output[{next(iter(output))!r}]`)"
        if isinstance(output, Mapping) and output
        else ""
    )


def _listed(names: list[str]) -> str:
    text = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{text} and {more} more" if more > 0 else text


def _output_name(index: int, output: OutputFact) -> str:
    return f"output {index}" + (f" ({output.path})" if output.path else "")


def _loss_problems(seen: Examination, workload: Workload) -> Iterator[Problem]:
    if not seen.outputs:
        yield Problem("GC005", "forward returns nothing, so there is no loss.", "Return the loss.")
        return
    first = seen.outputs[0]
    losses = [
        (index, output)
        for index, output in enumerate(seen.outputs)
        if output.could_be_loss and output.requires_grad
    ]
    if losses and losses[0][0] > 0:
        index, output = losses[0]
        yield Problem(
            "GC006",
            f"The loss is {_output_name(index, output)}, but training differentiates output 0, "
            f"which is {first}{at(first.frame)}.",
            "Return the loss first and detach the others: `return loss, logits.detach()`; in a "
            f"dict, put the loss first.{_other_loss(output)}",
            frame=first.frame,
        )
        return
    if not first.could_be_loss:
        yield _not_scalar(first)
        return
    if not first.requires_grad:
        yield from _cut_off(seen, workload)
        return
    carrying = [
        _output_name(index, output)
        for index, output in enumerate(seen.outputs)
        if index and output.requires_grad
    ]
    if carrying:
        yield Problem(
            "GC006",
            f"Besides the loss, {_listed(carrying)} still requires a gradient; only output 0 is "
            f"differentiated.",
            "Detach every output but the loss: `return loss, logits.detach()`.",
        )


def _other_loss(output: OutputFact) -> str:
    named = output.path.startswith("['") and "loss" not in output.path
    return f" If {output.path} is no loss, name one with --loss." if named else ""


def _not_scalar(first: OutputFact) -> Problem:
    if first.kind:
        return Problem(
            "GC005",
            f"The loss (output 0) is {first}, not a tensor.",
            "Return the loss as a tensor; do not call .item() or float() on it.",
        )
    if not first.floating:
        return Problem(
            "GC005",
            f"The loss (output 0) is {first}; only a real floating-point number can be "
            f"differentiated{at(first.frame)}.",
            "Return the loss before argmax, rounding or a cast to integers.",
            frame=first.frame,
        )
    return Problem(
        "GC005",
        f"The loss (output 0) has the shape {list(first.shape)}; it must be a scalar"
        f"{at(first.frame)}.",
        "Reduce it with .mean() or .sum(). If it is a prediction, add a loss with --loss, or with "
        "get_loss() and get_example_targets() in the model file.",
        frame=first.frame,
    )


def _cut_off(seen: Examination, workload: Workload) -> Iterator[Problem]:
    if not any(parameter.requires_grad for parameter in workload.module.parameters()):
        # `precheck` has said so.
        return
    cut = seen.cuts[-1] if seen.cuts else None
    yield Problem(
        "GC007",
        f"The loss does not depend on any trainable parameter{_cut_words(cut)}.",
        "Remove the cut, or use the trained layers on the way to the loss.",
        frame=cut.frame if cut else None,
    )


def _cut_words(cut: Cut | None) -> str:
    if cut is None:
        return ": none is used on the way to it"
    if cut.no_grad:
        return f": gradients are switched off (torch.no_grad) where it is computed{at(cut.frame)}"
    return f": the last gradient is cut by {cut.operation}{at(cut.frame)}"
