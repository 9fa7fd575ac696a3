"""Losses a user can name, and targets made up for them from the shape of the prediction."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphcheck.errors import ModelError, UsageError

__all__ = ["LOSSES", "Loss", "loss_like", "loss_named", "made_up_target"]


@dataclass(frozen=True)
class Loss:
    """A loss of `torch.nn.functional`.

    `target` is the kind of target: class (index of the class in dim 1), same (the prediction's
    shape, normal), binary (0 or 1), sign (-1 or 1), count (0, 1, 2, ...), distribution (positive,
    sums to 1 over dim 1), none.
    `module` is the class in torch.nn that computes the same.
    """

    name: str
    function: str
    target: str
    module: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, prediction: Any, *targets: Any) -> Any:
        import torch

        if not self.function:
            return getattr(torch, self.name)(prediction)
        compute: Callable[..., Any] = getattr(torch.nn.functional, self.function)
        return compute(prediction, *targets, **dict(self.options))


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("cross_entropy", "cross_entropy", "class", "CrossEntropyLoss"),
        Loss("nll", "nll_loss", "class", "NLLLoss"),
        Loss("mse", "mse_loss", "same", "MSELoss"),
        Loss("l1", "l1_loss", "same", "L1Loss"),
        Loss("smooth_l1", "smooth_l1_loss", "same", "SmoothL1Loss"),
        Loss("huber", "huber_loss", "same", "HuberLoss"),
        Loss("bce", "binary_cross_entropy", "binary", "BCELoss"),
        Loss("bce_with_logits", "binary_cross_entropy_with_logits", "binary", "BCEWithLogitsLoss"),
        Loss("kl_div", "kl_div", "distribution", "KLDivLoss", (("reduction", "batchmean"),)),
        Loss("poisson_nll", "poisson_nll_loss", "count", "PoissonNLLLoss"),
        Loss("soft_margin", "soft_margin_loss", "sign", "SoftMarginLoss"),
        Loss("hinge_embedding", "hinge_embedding_loss", "sign", "HingeEmbeddingLoss"),
        Loss("multi_margin", "multi_margin_loss", "class", "MultiMarginLoss"),
        Loss(
            "multilabel_soft_margin",
            "multilabel_soft_margin_loss",
            "binary",
            "MultiLabelSoftMarginLoss",
        ),
        Loss("mean", "", "none"),
        Loss("sum", "", "none"),
    )
}


def loss_named(name: str) -> Loss:
    """The loss of this name. Raises UsageError."""
    loss = LOSSES.get(name)
    if loss is None:
        close = difflib.get_close_matches(name, LOSSES, n=1)
        guess = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"There is no loss {name!r}.",
            f"{guess}Known: {', '.join(sorted(LOSSES))}. For any other loss offer get_loss() and "
            f"get_example_targets() in the model file.",
        )
    return loss


def loss_like(function: Any) -> Loss | None:
    """The named loss that takes the same targets as a loss function of torch, or None."""
    for loss in LOSSES.values():
        name = getattr(function, "__name__", "")
        module = getattr(function, "__module__", "") or ""
        if loss.function and name == loss.function and module.startswith("torch.nn"):
            return loss
        kind = type(function)
        if loss.module and kind.__name__ == loss.module and kind.__module__.startswith("torch.nn"):
            return loss
    return None


def made_up_target(loss: Loss, shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    """A target for a prediction of this shape and dtype, the same for the same seed; None for
    a loss that takes none.

    Raises ModelError GC005 when the loss does not suit the prediction.
    """
    import torch

    shown = f"{str(dtype).removeprefix('torch.')}{list(shape)}"
    if not dtype.is_floating_point:
        raise ModelError(
            f"The model returns {shown}; the loss {loss.name} needs a floating-point prediction.",
            "Return the logits (before argmax, rounding or a cast).",
            "GC005",
        )
    if loss.target == "none":
        return None
    generator = torch.Generator().manual_seed(seed)
    if loss.target == "class":
        if not shape:
            raise ModelError(
                f"The model returns a scalar; the loss {loss.name} needs scores of classes [N, C].",
                "Choose another --loss, or return the scores.",
                "GC005",
            )
        class_dim = 1 if len(shape) > 1 else 0
        outer = shape[:class_dim] + shape[class_dim + 1 :]
        return torch.randint(0, shape[class_dim], outer, generator=generator)
    if loss.target == "same":
        return torch.randn(shape, generator=generator).to(dtype)
    if loss.target == "distribution":
        dim = 1 if len(shape) > 1 else 0
        return torch.randn(shape, generator=generator).softmax(dim if shape else -1).to(dtype)
    high = 5 if loss.target == "count" else 2
    drawn = torch.randint(0, high, shape, generator=generator).to(dtype)
    return drawn * 2 - 1 if loss.target == "sign" else drawn
