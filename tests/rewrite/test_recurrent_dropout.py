"""Dropout between recurrent layers: found missing, put back, and proven in the runtime."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import graphcheck
from graphcheck.export.types import ExportOptions
from graphcheck.options import ValidateOptions
from graphcheck.rewrite.ops.recurrent_dropout import layered
from graphcheck.rewrite.plan import known_rewrite_names

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN, "rnn_relu": nn.RNN}
FORMS = [
    (op, layers, both, first, bias, dtype)
    for op, (layers, both, first, bias, dtype) in product(
        KINDS,
        [
            (2, False, False, True, torch.float32),
            (3, True, True, False, torch.float64),
            (4, True, False, True, torch.float32),
        ],
    )
]


class Draws(TorchDispatchMode):
    """The shapes of what is drawn for."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.shapes.append(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))


def _module(op: str, **options: object) -> nn.RNNBase:
    torch.manual_seed(0)
    if op.startswith("rnn_"):
        options["nonlinearity"] = op.removeprefix("rnn_")
    return KINDS[op](3, 4, dropout=0.4, **options)


@pytest.mark.parametrize(("op", "layers", "both", "first", "bias", "dtype"), FORMS)
def test_it_is_what_eager_computes(
    op: str, layers: int, both: bool, first: bool, bias: bool, dtype: torch.dtype
) -> None:
    options = {"bidirectional": both, "batch_first": first, "bias": bias}
    module = _module(op, num_layers=layers, dtype=dtype, **options)
    x = torch.randn(5, 6, 3, dtype=dtype)
    states = torch.zeros(2, layers * (1 + both), 5 if first else 6, 4, dtype=dtype)
    hidden = list(states) if op == "lstm" else states[0]
    torch.manual_seed(1)
    with Draws() as eager:
        y, ends = module(x)
    torch.manual_seed(1)
    weights = module._flat_weights
    with Draws() as own:
        mine, *last = layered(op, x, hidden, weights, bias, layers, 0.4, True, both, first)
    assert own.shapes == eager.shapes
    assert len(own.shapes) == layers - 1
    torch.testing.assert_close(mine, y)
    for found, right in zip(last, ends if op == "lstm" else (ends,), strict=True):
        torch.testing.assert_close(found, right)


def test_projections() -> None:
    module = _module("lstm", num_layers=2, proj_size=2)
    x, h, c = torch.randn(5, 6, 3), torch.randn(2, 6, 2), torch.randn(2, 6, 4)
    torch.manual_seed(1)
    y, ends = module(x, (h, c))
    torch.manual_seed(1)
    mine = layered("lstm", x, [h, c], module._flat_weights, True, 2, 0.4, True, False, False)
    for found, right in zip(mine, (y, *ends), strict=True):
        torch.testing.assert_close(found, right)


@pytest.mark.parametrize(
    ("layers", "p", "train"), [(1, 0.4, True), (2, 0.0, True), (2, 0.4, False)]
)
def test_nothing_to_put_back(layers: int, p: float, train: bool) -> None:
    module = _module("gru", num_layers=layers)
    x, h = torch.randn(5, 6, 3), torch.zeros(layers, 6, 4)
    args = (x, h, module._flat_weights, True, layers, p, train, False, False)
    assert layered("gru", *args) is NotImplemented


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], dropout: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = kind(3, 8, num_layers=2, dropout=dropout)
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(x)[0]).square().mean()


X = torch.linspace(-2, 2, 36).reshape(3, 4, 3)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_the_check_finds_it_and_only_it(kind: type[nn.RNNBase]) -> None:
    found = {f.code: f for f in graphcheck.check(Recurrent(kind, 0.5), (X,)).findings}
    assert found["GC303"].message == (
        "loses its dropout of 0.5 between the layers in torch's own decomposition: the program "
        "trains as if in eval mode"
    )
    assert found["GC303"].module == "inner"
    (mend,) = found["GC303"].mends
    assert mend.exact
    assert mend.name in known_rewrite_names()
    without = graphcheck.check(Recurrent(kind, 0.0), (X,)).findings
    assert "GC303" not in {f.code for f in without}


def test_stock_diverges_and_the_export_matches(tmp_path: Path) -> None:
    # An eager side that draws anew at every pass would take the dropout for rounding.
    stock = graphcheck.validate(Recurrent(nn.GRU, 0.5), (X,), options=ValidateOptions("m", steps=2))
    assert stock.verdict == "diverged"
    assert stock.first_locked is not None
    assert stock.first_locked.step == 0
    options = ExportOptions("m", steps=3)
    result = graphcheck.export(
        Recurrent(nn.LSTM, 0.5), (X,), tmp_path / "lstm.pte", options=options
    )
    assert result.card is not None
    assert result.card.verdict == "match"
    assert "lstm_dropout" in {rewrite.name for rewrite in result.card.rewrites}
