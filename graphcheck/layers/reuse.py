"""One parameter used twice, in place of two names for it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["TiedLinear"]


class TiedLinear(nn.Module):  # type: ignore[misc]
    """A linear layer that uses the weight of another layer, such as an embedding.

    `linear` gives the bias, `owner` the weight [out features, in features]. The weight has one
    name only, that in `owner`, which is not registered here again.
    """

    def __init__(self, linear: nn.Linear, owner: nn.Module) -> None:
        super().__init__()
        self.bias = linear.bias
        self._owner = (owner,)

    @property
    def weight(self) -> Tensor:
        """The owner's weight."""
        return self._owner[0].weight

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)
