"""Random ops: the right scale, the right distribution, and draws as inputs."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from harness import generator
from lowered import run_methods
from torch import nn

from graphcheck.errors import ModelError
from graphcheck.graph.trace import trace_joint
from graphcheck.rewrite.apply import apply, qualified_name
from graphcheck.rewrite.interface import rewrites_for
from graphcheck.rewrite.random import draw_values, draws_as_inputs, replayed

SIZE = 20000


class Layers(nn.Module):
    """A linear layer, then the op, a weighted sum; the op's result is returned as well."""

    def __init__(self, op, x):
        super().__init__()
        self.pre = nn.Linear(x.shape[-1], x.shape[-1])
        self.op = op
        with torch.no_grad():
            result = self.op(self.pre(x))
        self.register_buffer("weight", torch.randn(result.shape, generator=generator(4)))

    def forward(self, x):
        result = self.op(self.pre(x))
        return (result * self.weight).sum(), result.detach()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 6, dropout=0.3, batch_first=True)

    def forward(self, h):
        return self.layer(h)


def noisy(h):
    return h * torch.rand_like(h) + torch.randn_like(h) + torch.rand(h.shape) - torch.randn(h.shape)


def filled(h):
    return h * torch.empty_like(h).uniform_(-2, 3) + torch.empty_like(h).normal_(1, 2)


def normal_of_tensors(h):
    ones = torch.ones(h.shape)
    return torch.normal(h.detach() * 0, ones) + h * torch.normal(2.0, ones[0]) + torch.normal(ones)


def picked(h):
    """Rows and columns by their weights: several of a kind, one, and each at most once."""
    weights = h.detach().softmax(-1)
    columns = torch.multinomial(weights, 3, replacement=True)
    one = torch.multinomial(weights, 1)
    rows = torch.multinomial(torch.ones(h.shape[0]), 2)
    return h.gather(1, columns)[rows] * h.gather(1, one)[rows]


def like(h):
    """Whole numbers in shape and dtype of a tensor without gradient."""
    plain = h.detach()
    return h * torch.randint_like(plain, 5) + torch.randint_like(plain, -2, 3)


def depth(h):
    """Stochastic depth, as torchvision writes it."""
    noise = torch.empty([h.shape[0]] + [1] * (h.dim() - 1)).bernoulli_(0.7)
    return h * noise.div_(0.7)


IMAGE, ROWS = (3, 4, 5, 6), (4, 6)
MODELS = {
    "dropout": (lambda: nn.Dropout(0.3), IMAGE),
    "dropout of all": (lambda: nn.Dropout(1.0), IMAGE),
    "dropout of none": (lambda: nn.Dropout(0.0), IMAGE),
    "dropout in place": (lambda: lambda h: F.dropout(h * 2, 0.3, inplace=True), IMAGE),
    "dropout 1d": (lambda: nn.Dropout1d(0.3), (3, 4, 6)),
    "dropout 2d": (lambda: nn.Dropout2d(0.3), IMAGE),
    "dropout 3d": (lambda: nn.Dropout3d(0.3), (2, 3, 2, 3, 4)),
    "alpha dropout": (lambda: nn.AlphaDropout(0.3), IMAGE),
    "feature alpha dropout": (lambda: nn.FeatureAlphaDropout(0.3), IMAGE),
    "two": (lambda: nn.Sequential(nn.Dropout(0.2), nn.Tanh(), nn.Dropout(0.6)), ROWS),
    "stochastic depth": (lambda: depth, IMAGE),
    "bernoulli": (lambda: lambda h: h * torch.bernoulli(torch.sigmoid(h)), ROWS),
    "gumbel": (lambda: F.gumbel_softmax, ROWS),
    "noise": (lambda: noisy, ROWS),
    "filled": (lambda: filled, ROWS),
    "rrelu": (lambda: nn.RReLU(0.1, 0.5), ROWS),
    "rrelu in evaluation": (lambda: nn.RReLU(0.1, 0.5).eval(), ROWS),
    "encoder": (Encoder, (2, 3, 8)),
    "exponential": (lambda: lambda h: h * torch.empty_like(h).exponential_(2.0), ROWS),
    "cauchy": (lambda: lambda h: (h + torch.empty_like(h).cauchy_(0.5, 0.1)).tanh(), ROWS),
    "geometric": (lambda: lambda h: h * torch.empty_like(h).geometric_(0.3), ROWS),
    "log normal": (lambda: lambda h: h * torch.empty_like(h).log_normal_(0.1, 0.2), ROWS),
    "normal of tensors": (lambda: normal_of_tensors, ROWS),
    "normal of a size": (lambda: lambda h: h + torch.normal(0.5, 2.0, h.shape), ROWS),
    "integers": (lambda: lambda h: h * torch.randint(3, 9, h.shape, dtype=torch.int32), ROWS),
    "integers like": (lambda: like, ROWS),
    "classes": (lambda: picked, ROWS),
    "permuted": (lambda: lambda h: h[torch.randperm(4)] * torch.randint(1, 4, (4, 1)), ROWS),
}


def chosen(node):
    random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    found = rewrites_for(qualified_name(node.target))
    backward = "rrelu_with_noise_backward" in str(node.target)
    return found[0] if found and (random or backward) else None


def joint_of(model, x):
    exported = torch.export.export(model, (x,), strict=False)
    return apply(trace_joint(exported, strict=False).joint, chosen)[0]


@pytest.fixture(scope="module")
def runs():
    """All models, lowered as one program with a method each; draws are inputs."""
    jobs, models = {}, {}
    for index, (label, (make, shape)) in enumerate(MODELS.items()):
        torch.manual_seed(index)
        x = torch.randn(shape)
        model = Layers(make(), x)
        program, draws = draws_as_inputs(joint_of(model, x))
        data = [(x, *draw_values(draws, seed)) for seed in (1, 2)]
        jobs[f"m{index}"] = (program, data)
        models[label] = (model, draws, data, f"m{index}")
    return models, run_methods(jobs)


@pytest.mark.parametrize("label", MODELS)
def test_same_draws_same_result(runs, label):
    """Eager with the same draws gives the same loss, result and gradients, to rounding."""
    models, outcome = runs
    model, draws, data, name = models[label]
    for run in range(3):
        values = data[run % 2]
        model.zero_grad()
        with replayed(values[1:]):
            loss, result = model(values[0])
            loss.backward()
        gradients = [p.grad for p in model.parameters()]
        got = outcome[name][run][: 2 + len(gradients)]
        for have, want in zip(got, [loss.detach(), result, *gradients], strict=True):
            torch.testing.assert_close(have, want, rtol=2e-5, atol=2e-5)
    if draws:
        assert not torch.equal(outcome[name][0][1], outcome[name][1][1])


def test_draws_are_described():
    model = Layers(nn.Sequential(nn.Dropout(0.2), nn.Dropout2d(0.2)), torch.zeros(2, 3, 4, 5))
    program, draws = draws_as_inputs(joint_of(model, torch.zeros(2, 3, 4, 5)))
    assert [(d.name, d.position, d.distribution, d.shape, d.dtype) for d in draws] == [
        ("draw_0", 1, "uniform", (2, 3, 4, 5), "float32"),
        ("draw_1", 2, "uniform", (2, 3, 1, 1), "float32"),
    ]
    assert program.graph_signature.user_inputs == ("x", "draw_0", "draw_1")
    first, second, other = draw_values(draws, 5), draw_values(draws, 5), draw_values(draws, 6)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], other[0])


def test_program_without_draws_stays():
    joint = joint_of(Layers(nn.Tanh(), torch.zeros(4, 6)), torch.zeros(4, 6))
    program, draws = draws_as_inputs(joint)
    assert program is joint
    assert draws == ()


def test_keywords_come_last():
    class Keyword(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, *, scale):
            return (F.dropout(self.layer(x), 0.5) * scale).sum()

    model, x, scale = Keyword(), torch.randn(3, 4), torch.randn(3, 4)
    exported = torch.export.export(model, (x,), {"scale": scale}, strict=False)
    program, draws = draws_as_inputs(trace_joint(exported, strict=False).joint)
    values = draw_values(draws, 1)
    with replayed(values):
        want = model(x, scale=scale)
    (runs,) = run_methods({"forward": (program, [(x, scale, *values)] * 2)}).values()
    torch.testing.assert_close(runs[0][0], want.detach())


def test_messages():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            h = self.layer(x)
            return (h * torch.poisson(h.softmax(-1))).sum()

    exported = torch.export.export(Counted(), (torch.randn(3, 4),), strict=False)
    with pytest.raises(ModelError) as caught:
        draws_as_inputs(trace_joint(exported, strict=False).joint)
    assert caught.value.message == (
        "the random op aten.poisson.default (poisson) cannot take its randomness from an input"
    )
    for values, sentence in (
        ([], "eager draws once more than the program (aten.rand.default)"),
        (
            [torch.zeros(2)],
            "eager draws [3] of torch.float32 (aten.rand.default) where the program draws [2] of "
            "torch.float32",
        ),
        ([torch.zeros(3)] * 3, "2 of 3 random inputs were not drawn in eager"),
    ):

        def drawn(values=values):
            with replayed(values):
                F.dropout(torch.ones(3), 0.5)

        with pytest.raises(ModelError) as caught:
            drawn()
        assert caught.value.message == sentence


class Draws(nn.Module):
    """Many numbers of each kind, with the runtime's own generator."""

    def forward(self, x):
        kept = torch.ops.aten.native_dropout(x + 1, 0.8, True)
        return (
            kept[0],
            kept[1].float(),
            torch.bernoulli(x * 0 + 0.3),
            torch.ops.aten.exponential(x, 2.0),
            torch.ops.aten.rrelu_with_noise_functional(x - 1, x, 0.1, 0.5, True)[1],
            torch.rand_like(x),
            torch.randn_like(x),
            torch.ops.aten.uniform(x, -1.0, 3.0),
            torch.ops.aten.normal_functional(x, 1.0, 2.0),
            torch.ops.aten.log_normal(x, 0.1, 0.5),
            torch.ops.aten.geometric(x, 0.3),
            torch.ops.aten.cauchy(x, 2.0, 0.5).atan(),
            torch.randint(-2, 5, x.shape).float(),
            torch.randint(4, x.shape).float(),
            torch.normal(x + 1, x + 0.5),
            torch.normal(3.0, 0.5, x.shape),
        )


def _log_normal(mean, std):
    """Mean and standard deviation of exp(mean + std z)."""
    middle = math.exp(mean + std**2 / 2)
    return middle, middle * math.sqrt(math.exp(std**2) - 1)


def _atan_of_cauchy(median, sigma):
    """Mean and standard deviation of the arc tangent, from quantiles (Cauchy itself has none)."""
    u = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    angles = (median + sigma * torch.tan(math.pi * (u - 0.5))).atan()
    return float(angles.mean()), float(angles.std())


def test_classes_in_the_runtime():
    """Each as often as its weight says, one of weight 0 never, and without replacement once."""

    class Picked(nn.Module):
        def forward(self, x):
            many = torch.multinomial(x, 4000, replacement=True)
            two = torch.multinomial(x.expand(2000, 4), 2)
            return many, two, torch.multinomial(x.expand(2000, 4), 1)

    x = torch.tensor([3.0, 0.0, 1.0, 4.0])
    program = torch.export.export(Picked(), (x,), strict=False).run_decompositions()
    program, _ = apply(program, chosen)
    many, two, one = run_methods({"forward": (program, [(x,), (x,)])})["forward"][0]
    for found in (many, two[:, 0], one[:, 0]):
        counts = torch.bincount(found, minlength=4).double() / len(found)
        share = x.double() / 8
        spread = (share * (1 - share) / len(found)).sqrt()
        assert ((counts - share).abs() <= 5 * spread).all(), counts
    assert bool((two[:, 0] != two[:, 1]).all())
    assert not bool((two == 1).any())
    # The second after the first: P(3 then 0) = 1/2 * 3/4.
    share = float(((two[:, 0] == 3) & (two[:, 1] == 0)).double().mean())
    assert abs(share - 0.375) <= 5 * (0.375 * 0.625 / 2000) ** 0.5


def test_permutations_in_the_runtime():
    """Every entry is there once, and each place sees each entry equally often."""

    class Permuted(nn.Module):
        def forward(self, x):
            return x + torch.stack([torch.randperm(4) for _ in range(400)])

    x = torch.zeros(400, 4, dtype=torch.int64)
    program = torch.export.export(Permuted(), (x,), strict=False).run_decompositions()
    program, _ = apply(program, chosen)
    first, second = (
        run[0] for run in run_methods({"forward": (program, [(x,), (x,)])})["forward"][:2]
    )
    assert torch.equal(first.sort(1).values, torch.arange(4).expand(400, 4))
    assert not torch.equal(first, second)
    for place in range(4):
        counts = torch.bincount(first[:, place], minlength=4)
        assert (counts - 100).abs().max() < 5 * math.sqrt(75), (place, counts)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.randint(0, 1 << 21, (3,)),
        lambda: torch.randperm((1 << 20) + 1),
    ],
)
def test_more_integers_than_uniforms_tell_apart_are_left(draw):
    from torch.fx.experimental.proxy_tensor import make_fx

    (node,) = [n for n in make_fx(draw)().graph.nodes if chosen(n)]
    assert chosen(node).decompose(*node.args, **node.kwargs) is NotImplemented


def test_distributions_in_the_runtime():
    x = torch.zeros(SIZE)
    program = torch.export.export(Draws(), (x,), strict=False).run_decompositions()
    program, _ = apply(program, chosen)
    runs = run_methods({"forward": (program, [(x,), (x,)])})["forward"]
    # mean and standard deviation; the bound is five standard errors.
    expected = [
        (1.0, 2.0),
        (0.2, 0.4),
        (0.3, 0.21**0.5),
        (0.5, 0.5),
        (0.3, 0.4 / 12**0.5),
        (0.5, 1 / 12**0.5),
        (0.0, 1.0),
        (1.0, 4 / 12**0.5),
        (1.0, 2.0),
        _log_normal(0.1, 0.5),
        (1 / 0.3, 0.7**0.5 / 0.3),
        _atan_of_cauchy(2.0, 0.5),
        (1.0, 2.0),
        (1.5, 1.25**0.5),
        (1.0, 0.5),
        (3.0, 0.5),
    ]
    for index, (mean, spread) in enumerate(expected):
        value = runs[0][index]
        assert abs(float(value.mean()) - mean) < 5 * spread / SIZE**0.5, index
        assert abs(float(value.std()) / spread - 1) < 0.1, index
        assert not torch.equal(value, runs[1][index]), index
    assert set(runs[0][0].unique().tolist()) == {0.0, 5.0}
    assert float(runs[0][3].min()) > 0


def test_stock_dropout_is_not_scaled():
    """The kernel that this rewrite replaces: survivors keep their size."""

    class Stock(nn.Module):
        def forward(self, x):
            return torch.ops.aten.native_dropout(x + 1, 0.8, True)[0]

    x = torch.zeros(SIZE)
    program = torch.export.export(Stock(), (x,), strict=False).run_decompositions()
    runs = run_methods({"forward": (program, [(x,), (x,)])})["forward"]
    assert set(runs[0][0].unique().tolist()) == {0.0, 1.0}


def test_exact_scale():
    """Half precision is scaled in float32 and rounded once."""
    from graphcheck.rewrite.ops.dropout import native_dropout

    x = torch.randn(100, generator=generator(1)).bfloat16()
    result, mask = native_dropout(x, 0.3, True)
    assert torch.equal(result, torch.where(mask, (x.float() * (1 / 0.7)).bfloat16(), 0))
    assert torch.equal(native_dropout(x, 0.3, False)[0], x)
