"""Values of a user's data that no model can train on: told before anything is lowered.

The shapes of a batch may fit and its numbers not: a label beyond the classes, a token beyond the
rows of an embedding, NaN. Eager PyTorch says so in a sentence without names, the runtime refuses
the argument of a kernel or reads past its memory. Here the forward pass is run once in eager on
each batch that holds what neither the example nor a batch before it held.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from graphcheck.errors import UsageError
from graphcheck.workload.grad_mode import without_gradients
from graphcheck.workload.tensor_hooks import tensor_hooks_off
from graphcheck.workload.types import Workload

__all__ = ["check_values"]

_NO_CLASS = -100
"""What PyTorch's losses ignore unless they are told otherwise."""


def check_values(
    workload: Workload, batches: list[tuple[tuple[Any, ...], dict[str, Any]]], names: list[str]
) -> None:
    """Refuse batches that eager PyTorch cannot compute a finite loss of. Raises UsageError.

    `names` are those of all arguments in their order, with the option that they come from.
    """
    import torch

    ranges = _Ranges()
    ranges.widened(_by_name(names, workload.inputs, workload.kwargs))
    for index, (positional, named) in enumerate(batches):
        arguments = _by_name(names, positional, named)
        wider = ranges.widened(arguments)
        odd = _not_finite(arguments, index)
        if not (wider or odd):
            continue
        try:
            loss = _loss(workload.module, positional, named)
        except _BeyondError as beyond:
            where = _holding(arguments, beyond.value, index)
            raise UsageError(f"{where}, {beyond.why}.", beyond.hint) from None
        except Exception as error:
            told = " ".join(str(error).split())[:200] or "it says no more"
            raise UsageError(
                f"{', '.join(arguments)}: the model fails on batch {index} in eager PyTorch: "
                f"{type(error).__name__}: {told.rstrip('.')}.",
                "Look at the values of this batch; those of the example inputs pass.",
            ) from None
        if odd and isinstance(loss, torch.Tensor) and not bool(torch.isfinite(loss).all()):
            value = float(loss.detach().flatten()[0])
            raise UsageError(
                f"{odd}, and the loss of this batch is {value} in eager PyTorch.",
                "Leave these samples out, or fill what is missing.",
            )


class _BeyondError(Exception):
    """An index that nothing has."""

    def __init__(self, value: int, why: str, hint: str) -> None:
        super().__init__(why)
        self.value = value
        self.why = why
        self.hint = hint


class _Ranges:
    """The least and the largest integer of each argument so far."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, int]] = {}

    def widened(self, arguments: Mapping[str, Any]) -> bool:
        """Whether an argument holds an integer beyond those seen; they count as seen then."""
        wider = False
        for name, tensor in _tensors(arguments):
            if tensor.is_floating_point() or tensor.is_complex() or not tensor.numel():
                continue
            low, high = int(tensor.min()), int(tensor.max())
            least, most = self.seen.get(name, (low, high))
            wider = wider or name not in self.seen or low < least or high > most
            self.seen[name] = (min(low, least), max(high, most))
        return wider


def _by_name(
    names: list[str], positional: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    return dict(zip(names, (*positional, *named.values()), strict=True))


def _tensors(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    import torch
    from torch.utils._pytree import tree_leaves

    for name, value in arguments.items():
        for leaf in tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                yield name, leaf


def _not_finite(arguments: Mapping[str, Any], batch: int) -> str:
    """`--data x.npz: x holds NaN in sample 3 of batch 1 (...)`, "" if all numbers are finite."""
    import torch

    for name, tensor in _tensors(arguments):
        if tensor.is_floating_point():
            bad = (~torch.isfinite(tensor)).nonzero()
            if len(bad):
                value = float(tensor[tuple(bad[0])])
                told = "NaN" if math.isnan(value) else str(value)
                return f"{name} holds {told} {_place(bad, batch)}"
    return ""


def _holding(arguments: Mapping[str, Any], value: int, batch: int) -> str:
    """Which argument holds an integer, and where; all where none does (it was computed)."""
    for name, tensor in _tensors(arguments):
        if not tensor.is_floating_point():
            found = (tensor == value).nonzero()
            if len(found):
                return f"{name} holds {value} {_place(found, batch)}"
    return f"{', '.join(dict.fromkeys(arguments))}: {value} comes up in batch {batch}"


def _place(found: Any, batch: int) -> str:
    """Where the first of these indices is; the whole batch where there are no samples."""
    sample = f"sample {int(found[0][0])} of " if found.shape[1] else ""
    return f"in {sample}batch {batch} (counted from 0)"


def _loss(module: Any, positional: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """What forward returns first. Raises _BeyondError, or what the model itself raises."""
    try:
        with _indices_judged():
            return _forward(module, positional, named)
    except _BeyondError:
        raise
    except Exception:
        # It may be the judge that the model cannot bear.
        return _forward(module, positional, named)


def _forward(module: Any, positional: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Output 0 on copies of the buffers; neither the module nor the random state changes."""
    import torch
    from torch.utils._pytree import tree_leaves

    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with torch.random.fork_rng(devices=[]), tensor_hooks_off():
        output = without_gradients(
            lambda: torch.func.functional_call(module, buffers, positional, dict(named))
        )
    return next(iter(tree_leaves(output)), None)


@contextlib.contextmanager
def _indices_judged() -> Iterator[None]:
    """Indices of classes and of embeddings are looked at before they are used."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Judge(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = func.overloadpacket.__name__
            if name in ("nll_loss_forward", "nll_loss2d_forward", "multi_margin_loss"):
                _judge_classes(name, *args)
            elif name == "embedding":
                _judge_rows(*args)
            return func(*args, **(kwargs or {}))

    with Judge():
        yield


def _judge_classes(op: str, scores: Any, labels: Any, *rest: Any) -> None:
    """`rest` of nll_loss is weight, reduction, ignore_index; other losses ignore none."""
    count = int(scores.shape[1 if scores.dim() > 1 else 0])
    bad = (labels < 0) | (labels >= count)
    also = ""
    if op.startswith("nll"):
        ignored = int(rest[2])
        bad &= labels != ignored
        also = "" if ignored == _NO_CLASS else f" (and {ignored}, which is ignored)"
    if bool(bad.any()):
        raise _BeyondError(
            int(labels[bad].flatten()[0]),
            f"which is no class: the loss takes 0 to {count - 1}{also}, of {count} classes",
            f"Number the classes from 0 to {count - 1}, or give the model more outputs.",
        )


def _judge_rows(weight: Any, indices: Any, *rest: Any) -> None:
    count = int(weight.shape[0])
    bad = (indices < 0) | (indices >= count)
    if bool(bad.any()):
        raise _BeyondError(
            int(indices[bad].flatten()[0]),
            f"which is no row of the embedding: it has {count}, 0 to {count - 1}",
            "Map other values to one of these rows, or give the embedding more.",
        )
