"""Does the training metadata point at the first gradient when forward writes a buffer?"""

from __future__ import annotations

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import lower_training, start

__all__ = ["PROBE", "measure_shift"]

_GRADIENTS = "__et_training_gradients_index_forward"


def measure_shift(buffers: int) -> Figures:
    """The index of the first gradient in a program that writes this many buffers."""
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            for number in range(buffers):
                self.register_buffer(f"seen{number}", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for number in range(buffers):
                getattr(self, f"seen{number}").add_(1.0)
            return self.linear(x).square().mean()

    x = torch.ones(2, 3)
    module = start(lower_training(Net(), (x,)))
    # Outputs are what the user returns, gradients, parameters: two of each of the last two here.
    first = len(module.forward([x])) - 4
    return {
        "buffers": float(buffers),
        "said": float(module.run_method(_GRADIENTS, ())[0]),
        "first": float(first),
    }


def measure(load: Load) -> Figures:
    return measure_shift(2)


def judge(figures: Figures) -> Judgement:
    said, first = figures["said"], figures["first"]
    return Judgement(
        said != first,
        f"a program that writes {figures['buffers']:.0f} buffers says its gradients begin at "
        f"output {said:.0f} (right: {first:.0f})",
    )


PROBE = Probe(
    "ask a training program that writes buffers where its gradients begin", measure, judge
)
