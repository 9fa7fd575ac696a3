"""Models that torch's own library would stop at while tracing: the same function, traced."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, distributions, nn

import graphcheck
from graphcheck.graph.library_branches import values_unread
from graphcheck.graph.trace import export
from graphcheck.workload.types import Workload

X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
WORDS = torch.tensor([[1, 4, 2, 0, 3], [2, 2, 1, 4, 0]])


class Generator(nn.Module):
    """A causal encoder, as language models are written with torch's layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(5, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, words: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        h = self.encoder(self.embed(words), mask=mask)
        return F.cross_entropy(self.head(h[:, :-1]).transpose(1, 2), words[:, 1:])


class Translator(nn.Module):
    """Encoder and decoder, with a mask that is not causal and one that is."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(5, 8)
        self.net = nn.Transformer(8, 2, 1, 1, 8, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 5)
        self.register_buffer("window", torch.eye(5).roll(1, 0) > 0)
        self.window: Tensor

    def forward(self, words: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        x = self.embed(words)
        h = self.net(x, x, src_mask=self.window, tgt_mask=mask, src_key_padding_mask=words == 0)
        return F.cross_entropy(self.head(h).transpose(1, 2), words)


class Likelihood(nn.Module):
    """Probabilities by distributions, which check their parameters and values."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        mean, raw = self.layer(x).chunk(2, -1)
        normal = distributions.Normal(mean, F.softplus(raw))
        other = distributions.Laplace(mean, F.softplus(raw))
        loss = -normal.log_prob(x[..., :1]).mean() - other.log_prob(x[..., 1:2]).mean()
        return loss + distributions.kl_divergence(normal, distributions.Normal(0.0, 1.0)).mean()


class Heteroscedastic(nn.Module):
    """Every form of the Gaussian loss; some variances are below one of the eps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        mean, raw = self.layer(x).chunk(2, -1)
        var = F.softplus(raw)
        target = x[..., :1]
        loss = F.gaussian_nll_loss(mean, target, var, full=True)
        loss = loss + nn.GaussianNLLLoss(reduction="sum", eps=0.7)(mean, target, var)
        loss = loss + F.gaussian_nll_loss(mean, target, var[..., 0], reduction="none").mean()
        return loss + F.gaussian_nll_loss(mean, target, 0.5)


MODELS = [(Generator, WORDS), (Translator, WORDS), (Likelihood, X), (Heteroscedastic, X)]


@pytest.mark.parametrize(("kind", "x"), MODELS)
def test_they_are_traced_and_compute_the_same(
    kind: type[nn.Module], x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The default, which dynamo switches off for the rest of a process.
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)
    module = kind()
    with pytest.raises(Exception, match=r"data-dependent|Eq\(u0, 1\)"):
        torch.export.export(module, (x,), strict=False)
    exported = export(Workload(module, (x,)), strict=False)
    got, want = exported.module()(x), module(x)
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "x"), MODELS)
def test_they_train_in_the_runtime(kind: type[nn.Module], x: Tensor, tmp_path: Path) -> None:
    module = kind()
    report = graphcheck.check(module, (x,))
    assert not [f for f in report.findings if f.code.startswith("GC0")]
    assert graphcheck.export(module, (x,), tmp_path / "model.pte").card.verdict == "match"


def test_everything_is_put_back() -> None:
    transformer = nn.modules.transformer
    before = (
        transformer._detect_is_causal_mask,
        F.gaussian_nll_loss,
        distributions.Distribution._validate_args,
    )

    def failing() -> None:
        with values_unread():
            assert F.gaussian_nll_loss is not before[1]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert before == (
        transformer._detect_is_causal_mask,
        F.gaussian_nll_loss,
        distributions.Distribution._validate_args,
    )
    with pytest.raises(ValueError, match="var has negative"):
        F.gaussian_nll_loss(X, X, -X.abs() - 1)


def test_a_check_that_the_model_asks_for_stays() -> None:
    class Asked(Likelihood):
        def forward(self, x: Tensor) -> Tensor:
            scale = F.softplus(self.layer(x))
            return -distributions.Normal(0.0, scale, validate_args=True).log_prob(x[..., :2]).mean()

    report = graphcheck.check(Asked(), (X,))
    assert [f.code for f in report.findings] == ["GC004"]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3), (2, 3, 1)])
def test_the_gaussian_loss_is_that_of_torch(
    reduction: str, full: bool, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(1)
    target = torch.randn(2, 3, 4, dtype=torch.float64)
    results = []
    for inside in (False, True):
        torch.manual_seed(2)
        mean = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
        var = torch.rand(shape, dtype=torch.float64).sub_(0.1).clamp_(min=0).requires_grad_()
        with values_unread() if inside else torch.enable_grad():
            loss = F.gaussian_nll_loss(mean, target, var, full=full, eps=1e-2, reduction=reduction)
        results.append((loss, *torch.autograd.grad(loss.sum(), (mean, var))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
