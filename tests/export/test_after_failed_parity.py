"""What export advises after a parity check that was not passed."""

from __future__ import annotations

import pytest

from graphcheck.errors import ModelError
from graphcheck.export.run import _after
from graphcheck.validate.types import Verdict

_SHIP = "nothing was written; --no-validate writes the program all the same"


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict(target="m.py", verdict="diverged", reason="loss at step 0", losses=(1.0,)), _SHIP),
        (
            Verdict(target="m.py", verdict="not run", reason="", losses=(float("nan"),)),
            "nothing was written; try graphcheck validate m.py --data FILE.npz",
        ),
        (
            Verdict(
                target="m.py",
                verdict="not run",
                reason="",
                losses=(1.0, float("inf")),
                optimizer="sgd, learning rate 0.5",
            ),
            "nothing was written; try graphcheck validate m.py --learning-rate 0.05",
        ),
    ],
)
def test_lost_training_is_not_to_be_shipped(verdict: Verdict, told: str) -> None:
    assert _after(verdict) == told


def test_what_export_loses_is_to_be_mended() -> None:
    verdict = Verdict(target="m.py", verdict="diverged", reason="gradient of a", losses=(1.0,))
    hidden = ModelError("hidden", "Use a ModuleList.", "GC010")
    lost = ModelError("lost", "Change the gradient in the graph.", "GC015")
    assert _after(verdict, [hidden]) == _SHIP
    assert _after(verdict, [hidden, lost]) == (
        "nothing was written. Change the gradient in the graph."
    )
