"""What the workload room hands on: the user's model, ready to be traced for training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Workload"]


@dataclass(frozen=True)
class Workload:
    """A module whose forward takes `inputs` and returns the scalar loss as output 0.

    `module` is the user's module, or a thin wrapper that adds the loss; `prefix` is the name the
    user's module has inside the wrapper ("" without one; "model." when wrapped), to be cut from
    parameter names and module paths. `inputs` are positional (a tuple), `kwargs` by name.
    `guesses` are sentences on what was not said by the user and had to be assumed.
    `root_type` is the class name of the user's module; `file` the user's source file, if any.
    `batches` are sets of arguments to train on in turn, each (positional, by name); () trains on
    the example inputs alone. `exported` is the exported program to take instead of exporting
    `module`; with `joint` it has its backward pass already. `example_loss` is the loss on the
    example data where loading the model gave it.
    """

    module: Any
    inputs: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    prefix: str = ""
    root_type: str = ""
    target: str = ""
    file: str = ""
    guesses: tuple[str, ...] = ()
    batches: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = ()
    exported: Any = None
    joint: bool = False
    example_loss: float | None = None

    def copied_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The example inputs, positional and by name, as copies: forward may write into them."""
        import torch
        from torch.utils._pytree import tree_map_only

        def copied(tensor: Any) -> Any:
            return tensor.detach().clone()

        args, kwargs = tree_map_only(torch.Tensor, copied, (self.inputs, dict(self.kwargs)))
        return args, kwargs
