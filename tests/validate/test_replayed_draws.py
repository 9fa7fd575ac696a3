"""Random draws that a program makes from others: replayed in eager, entry by entry."""

from __future__ import annotations

import pytest
import torch

import graphcheck

DRAWN = {
    "exponential": lambda h: h * torch.empty_like(h).exponential_(2.0),
    "gumbel": lambda h: torch.nn.functional.gumbel_softmax(h),
    "rrelu": lambda h: torch.nn.functional.rrelu(h, training=True),
    "normal": lambda h: h + torch.normal(torch.zeros(h.shape), torch.ones(h.shape)),
    "classes": lambda h: h * torch.multinomial(h.detach().softmax(-1), 8, replacement=True),
    "permuted": lambda h: h * torch.randperm(8),
    "attention without dropout": lambda h: torch.nn.functional.dropout(
        torch.nn.functional.scaled_dot_product_attention(h[None], h[None], h[None], is_causal=True)
    ),
}


def _drawing(kind):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

        def forward(self, x):
            return self.b(DRAWN[kind](self.a(x))).square().mean()

    return Model()


@pytest.mark.parametrize("kind", DRAWN)
def test_draws_that_the_program_makes_from_others_are_replayed(kind, tmp_path):
    result = graphcheck.export(_drawing(kind), (torch.randn(4, 6),), tmp_path / "model.pte")
    assert result.card is not None, result.failure
    assert result.card.verdict == "match"
    assert any(
        "entry by entry, with the runtime's own draws" in note for note in result.verdict.notes
    )


def test_draws_that_cannot_be_replayed_are_judged_by_their_distribution(tmp_path, monkeypatch):
    from graphcheck.errors import ModelError
    from graphcheck.validate import replay

    def unknown(name, args, kwargs):
        raise ModelError("no rewrite of it")

    monkeypatch.setattr(replay, "by_rewrite", unknown)
    model, x = _drawing("exponential"), torch.randn(4, 6)
    result = graphcheck.export(model, (x,), tmp_path / "model.pte")
    assert result.card is not None, result.failure
    assert any(
        "eager draws by exponential, the program by rand" in note for note in result.verdict.notes
    )
