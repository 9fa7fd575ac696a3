"""Swaps that change training: what they keep, what they say, and the traps."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn

import graphcheck
from graphcheck.errors import UsageError
from graphcheck.opset.swaps import swap_catalogue
from graphcheck.swap.interface import all_swaps
from graphcheck.swap.swaps.batch_norm_as_group_norm import groups_for


def changes_of(module: nn.Module, *swaps: str, **options: object) -> list[str]:
    return [str(c) for c in graphcheck.make_trainable(module, list(swaps), **options).changes]


def test_code_and_catalogue_agree() -> None:
    assert list(all_swaps()) == list(swap_catalogue())
    for swap in all_swaps().values():
        assert swap.module or swap.whole, f"{swap.name} has no module form"


@pytest.mark.parametrize(
    ("channels", "wanted", "flat", "groups"),
    [
        (64, 32, False, 32),
        (24, 32, False, 8),
        (3, 32, False, 1),
        (16, 32, False, 16),
        (64, 8, False, 8),
        # [N, C]: never one value in a group, and eight where there are as many.
        (64, 32, True, 8),
        (16, 32, True, 2),
        (32, 32, True, 4),
        (2, 32, True, 1),
        (3, 3, True, 1),
    ],
)
def test_groups(channels: int, wanted: int, flat: bool, groups: int) -> None:
    assert groups_for(channels, wanted, flat=flat) == groups
    assert channels % groups == 0


def test_batch_norm_1d_still_learns_after_the_swap() -> None:
    torch.manual_seed(0)
    old = nn.BatchNorm1d(16)
    with torch.no_grad():
        old.weight.uniform_(0.5, 2)
        old.bias.uniform_(-1, 1)
    new = graphcheck.make_trainable(copy.deepcopy(old), ["batch-norm-as-group-norm"]).module
    assert isinstance(new, nn.GroupNorm)
    assert (new.num_groups, new.num_channels) == (2, 16)
    assert torch.equal(new.weight, old.weight)
    assert torch.equal(new.bias, old.bias)
    x = torch.randn(4, 16)
    assert not torch.allclose(new(x), new.bias.expand(4, 16), atol=1e-3)
    # What the trap does: one value a group gives the shift, whatever comes in.
    trapped = nn.functional.group_norm(x, 16, new.weight, new.bias)
    torch.testing.assert_close(trapped, new.bias.expand(4, 16), rtol=0, atol=1e-3)


def test_one_channel_is_refused() -> None:
    assert changes_of(nn.BatchNorm1d(1), "batch-norm-as-group-norm") == [
        "the model itself (BatchNorm1d): not swapped: batch-norm-as-group-norm: with one channel "
        "each group of [N, 1] holds one value, and nothing is learnt"
    ]


def test_groups_option_and_argument() -> None:
    for swaps, options in (
        (["batch-norm-as-group-norm=4"], {}),
        (["batch-norm-as-group-norm"], {"groups": 4}),
    ):
        net = nn.Sequential(nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12))
        assert changes_of(net, *swaps, **options) == [
            "1 (BatchNorm2d): batch-norm-as-group-norm (changes the function): "
            "4 groups of 3 channels, scale and shift kept"
        ]


def test_parameters_stay_the_same_tensors() -> None:
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2))
    before = [id(p) for p in net.parameters()]
    graphcheck.make_trainable(net, ["batch-norm-as-group-norm", "max-pool-as-amax"])
    assert [id(p) for p in net.parameters()] == before


def test_frozen_batch_norm_is_eval_mode_and_trains_scale_and_shift() -> None:
    torch.manual_seed(0)
    old = nn.BatchNorm2d(3).double()
    for _ in range(3):
        old(torch.randn(4, 3, 5, 6, dtype=torch.float64) * 3 + 2)
    new, changes = graphcheck.make_trainable(copy.deepcopy(old), ["frozen-batch-norm"])
    assert changes[0].what == "statistics fixed, scale and shift kept"
    assert new.training
    state = copy.deepcopy(new.state_dict())
    x = torch.randn(4, 3, 5, 6, dtype=torch.float64)
    output = new(x)
    torch.testing.assert_close(output, old.eval()(x))
    (output * torch.randn_like(output)).sum().backward()
    assert new.weight.grad.abs().min() > 0
    assert new.bias.grad.abs().min() > 0
    assert all(torch.equal(value, state[name]) for name, value in new.state_dict().items())


def test_frozen_batch_norm_says_when_there_are_no_statistics() -> None:
    assert changes_of(nn.BatchNorm1d(3), "frozen-batch-norm") == [
        "the model itself (BatchNorm1d): frozen-batch-norm (changes the function): statistics "
        "fixed, scale and shift kept; they are the initial ones: load trained weights before this"
    ]
    assert changes_of(nn.BatchNorm1d(3, track_running_stats=False), "frozen-batch-norm") == [
        "the model itself (BatchNorm1d): not swapped: frozen-batch-norm: it keeps no running "
        "statistics (track_running_stats=False)"
    ]


class Residual(nn.Module):
    """Pairs that can be folded, and one that cannot: its layer's output is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.bn2 = nn.BatchNorm2d(4, affine=False)
        self.conv3 = nn.Conv2d(4, 4, 1)
        self.bn3 = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 3)
        self.bn4 = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.bn1(self.conv1(x)))
        h = h + self.bn2(self.conv2(h))
        g = self.conv3(h)
        h = g + self.bn3(g)
        return self.bn4(self.fc(h.mean((2, 3))))


def test_fold_is_exact_in_eval_mode() -> None:
    torch.manual_seed(0)
    old = Residual().double()
    for module in old.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 3)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    old.eval()
    new, changes = graphcheck.make_trainable(copy.deepcopy(old), ["fold-batch-norm"])
    assert [(c.module, c.done, c.what) for c in changes] == [
        ("bn1", True, "folded into conv1; nn.Identity stands in its place"),
        ("bn2", True, "folded into conv2; nn.Identity stands in its place"),
        ("bn3", False, "no convolution or linear layer that feeds it alone was found"),
        ("bn4", True, "folded into fc; nn.Identity stands in its place"),
    ]
    x = torch.randn(3, 2, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(new(x), old(x), rtol=1e-10, atol=1e-10)
    assert isinstance(new.bn3, nn.BatchNorm2d)


class Untraceable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) if x.sum() > 0 else self.body(-x)


def test_fold_finds_neighbours_without_a_trace() -> None:
    torch.manual_seed(0)
    old = Untraceable().eval()
    old.body[1].running_mean.normal_()
    new, changes = graphcheck.make_trainable(copy.deepcopy(old), ["fold-batch-norm"])
    assert [c.module for c in changes if c.done] == ["body.1"]
    x = torch.randn(2, 1, 6)
    torch.testing.assert_close(new(x), old(x))


def test_amax_shares_the_gradient_of_a_tie() -> None:
    old = nn.MaxPool2d(2)
    new = graphcheck.make_trainable(copy.deepcopy(old), ["max-pool-as-amax"]).module
    x = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(new(x), old(x))
    tie = torch.ones(1, 1, 2, 2, requires_grad=True)
    new(tie).sum().backward()
    assert tie.grad.flatten().tolist() == [0.25] * 4
    assert changes_of(nn.MaxPool2d(3, 2), "max-pool-as-amax") == [
        "the model itself (MaxPool2d): not swapped: max-pool-as-amax: AmaxPool2d needs stride = "
        "kernel_size, not 2"
    ]


def test_max_pool_as_conv_starts_as_the_mean() -> None:
    new = graphcheck.make_trainable(nn.MaxPool2d(3, 2, 1), ["max-pool-as-conv"]).module
    x = torch.randn(2, 4, 9, 8)
    torch.testing.assert_close(new(x), nn.AvgPool2d(3, 2, 1)(x))
    assert new.weight.requires_grad
    assert "ceil_mode" in changes_of(nn.MaxPool2d(2, ceil_mode=True), "max-pool-as-conv")[0]


def test_adaptive_form() -> None:
    new = graphcheck.make_trainable(nn.AvgPool2d(7), ["avg-pool-as-adaptive"]).module
    x = torch.randn(2, 4, 7, 7)
    torch.testing.assert_close(new(x), nn.AvgPool2d(7)(x))


def test_default_makes_exact_swaps_only() -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.AvgPool2d(3, 2),
        nn.MaxPool2d(2),
        nn.SiLU(),
    )
    result = graphcheck.make_trainable(net)
    assert [(c.module, c.swap) for c in result.changes if c.done] == [
        ("3", "avg-pool-as-conv"),
        ("5", "silu-as-sigmoid"),
    ]
    result = graphcheck.make_trainable(net, unsafe=True)
    assert [(c.module, c.swap) for c in result.changes if c.done] == [
        ("1", "batch-norm-as-group-norm"),
        ("4", "max-pool-as-amax"),
    ]
    assert graphcheck.make_trainable(net, unsafe=True).changes == ()


def test_only_and_shared_modules() -> None:
    shared = nn.SiLU()
    net = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared, nn.SiLU()), "c": nn.SiLU()})
    changes = graphcheck.make_trainable(net, ["silu-as-sigmoid"], only=["a", "c"]).changes
    assert [c.module for c in changes] == ["a", "c"]
    assert net["a"] is net["b"][0]
    assert type(net["b"][1]) is nn.SiLU


def test_subclasses_are_left_alone() -> None:
    class Mine(nn.SiLU):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 1

    net = nn.Sequential(Mine())
    assert graphcheck.make_trainable(net).changes == ()


def test_hooks_and_mode_stay() -> None:
    seen = []
    layer = nn.Conv1d(1, 2, 3).eval()
    layer.register_forward_hook(lambda *_: seen.append(1))
    new = graphcheck.make_trainable(layer).module
    new(torch.randn(1, 1, 5))
    assert seen == [1]
    assert not new.training


@pytest.mark.parametrize(
    ("swaps", "message"),
    [
        (["batch-norm-to-group-norm"], "There is no swap 'batch-norm-to-group-norm'."),
        (["silu-as-sigmoid=3"], "Swap silu-as-sigmoid takes no argument, but got '3'."),
        (["batch-norm-as-group-norm="], "Swap 'batch-norm-as-group-norm=' lacks its argument."),
        (
            ["batch-norm-as-group-norm=no"],
            "Swap 'batch-norm-as-group-norm=no': the number of groups must be a whole number "
            "above 0, not no.",
        ),
        (
            ["batch-norm-as-group-norm=2", "batch-norm-as-group-norm=4"],
            "Swap batch-norm-as-group-norm is given twice, with different arguments.",
        ),
    ],
)
def test_bad_names(swaps: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        graphcheck.make_trainable(nn.SiLU(), swaps)


def test_near_name_is_offered() -> None:
    with pytest.raises(UsageError) as caught:
        graphcheck.make_trainable(nn.SiLU(), ["batch-norm-to-group-norm"])
    assert caught.value.hint.startswith("Did you mean batch-norm-as-group-norm? Swaps are ")


@pytest.mark.parametrize(("groups", "made"), [(2, 2), (3, 1)])
def test_a_number_of_groups_is_preferred_to_other_swaps(groups: int, made: int) -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    graphcheck.make_trainable(module, groups=groups, unsafe=True)
    assert isinstance(module[1], nn.GroupNorm)
    assert module[1].num_groups == made


def test_a_pattern_that_matches_no_module_is_refused() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(UsageError) as told:
        graphcheck.make_trainable(module, only="zzz")
    assert told.value.message == "only='zzz' matches no module."
    assert told.value.hint == "Paths of this model are 0, 1 and the like."


def test_groups_alone_swap_nothing() -> None:
    for swaps in (None, ["dropout-as-mask"]):
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout())
        with pytest.raises(UsageError) as caught:
            graphcheck.make_trainable(module, swaps, groups=2)
        assert caught.value.message == (
            "groups=2 belongs to the swap batch-norm-as-group-norm, which is not asked for: it "
            "changes the function, so that it is made only when it is named or with unsafe=True."
        )
        assert caught.value.hint == (
            "Pass swaps=['batch-norm-as-group-norm=2'], or leave groups out."
        )
        assert [type(layer) for layer in module] == [nn.Conv2d, nn.BatchNorm2d, nn.Dropout]


def test_two_numbers_of_groups_contradict_each_other() -> None:
    with pytest.raises(UsageError, match="is given twice, with different arguments"):
        graphcheck.make_trainable(nn.BatchNorm2d(8), ["batch-norm-as-group-norm=8"], groups=4)


@pytest.mark.parametrize(
    ("module", "groups", "told"),
    [
        (nn.BatchNorm2d(8), 5, "1 group of 8 channels, scale and shift kept; 5 does not divide 8"),
        (nn.BatchNorm2d(6), 4, "2 groups of 3 channels, scale and shift kept; 4 does not divide 6"),
        (
            nn.BatchNorm1d(64),
            32,
            "8 groups of 8 channels, scale and shift kept; 32 groups would hold fewer than 8 "
            "channels each",
        ),
    ],
)
def test_another_number_of_groups_than_was_asked_for_is_told(
    module: nn.Module, groups: int, told: str
) -> None:
    (change,) = graphcheck.make_trainable(
        module, ["batch-norm-as-group-norm"], groups=groups
    ).changes
    assert change.what == f"{told}, so {told.partition(' ')[0]} is used"
    # What nobody asked for is not explained.
    (change,) = graphcheck.make_trainable(nn.BatchNorm2d(24), ["batch-norm-as-group-norm"]).changes
    assert change.what == "8 groups of 3 channels, scale and shift kept"
