"""Large data in mapped files: the same values and the same training, without the memory."""

from __future__ import annotations

import copy
import gc
import mmap
import tempfile
from pathlib import Path

import pytest

from graphcheck import spill

torch = pytest.importorskip("torch")


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(spill, "LARGE_BYTES", 1)


@pytest.fixture
def no_room(monkeypatch, everything_is_large):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)


class Tied(torch.nn.Module):
    """A tied weight, a weight with a view that is kept, two dtypes and an empty parameter."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.small = torch.nn.Parameter(torch.randn(3).bfloat16())
        self.whole = torch.nn.Parameter(torch.arange(3), requires_grad=False)
        self.none = torch.nn.Parameter(torch.empty(0))
        self.across = torch.nn.Parameter(torch.randn(3, 5).t())

    def forward(self, x):
        y = self.second(self.first(x)).sum() + self.small.float().sum()
        return y + (self.across * 2).sum() + self.whole.sum()


def trained(module):
    """Parameters after three steps with momentum."""
    optimizer = torch.optim.SGD(
        [p for p in module.parameters() if p.requires_grad], lr=0.1, momentum=0.9
    )
    for _ in range(3):
        optimizer.zero_grad()
        module(torch.ones(2, 4)).backward()
        optimizer.step()
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def is_mapped(parameter):
    """Whether its memory is inside a file that is mapped."""
    at = parameter.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, _, end = line.split()[0].partition("-")
        if int(start, 16) <= at < int(end, 16):
            return "(deleted)" in line
    return False


def test_a_module_trains_as_before(everything_is_large):
    module = Tied()
    twin = copy.deepcopy(module)
    identities = [id(p) for p in module.parameters()]
    spill.park_(module)
    assert [id(p) for p in module.parameters()] == identities
    assert module.second.weight is module.first.weight
    for name, parameter in twin.named_parameters():
        assert torch.equal(dict(module.named_parameters())[name], parameter), name
    assert {n for n, p in module.named_parameters() if is_mapped(p)} == {
        "first.weight",
        "first.bias",
        "small",
        "whole",
    }
    expected, got = trained(twin), trained(module)
    assert all(torch.equal(got[name], expected[name]) for name in expected)
    spill.park_(module)
    assert all(torch.equal(p, expected[name]) for name, p in module.named_parameters())


def test_what_is_shared_stays(everything_is_large):
    module = torch.nn.Linear(2, 2)
    module.seen = module.weight.data
    spill.park_(module)
    assert is_mapped(module.bias)
    assert not is_mapped(module.weight)
    assert module.seen.data_ptr() == module.weight.data_ptr()


def test_two_modules_do_not_see_each_other(everything_is_large):
    one = torch.nn.Linear(2, 2)
    spill.park_(one)
    other = copy.deepcopy(one)
    spill.park_(other)
    before = one.weight.detach().clone()
    with torch.no_grad():
        other.weight.add_(1)
    assert torch.equal(one.weight, before)
    assert torch.equal(other.weight, before + 1)


def test_a_small_module_stays_in_memory():
    module = torch.nn.Linear(2, 2)
    at = module.weight.data_ptr()
    spill.park_(module)
    assert module.weight.data_ptr() == at


def test_bytes(everything_is_large):
    data = bytes(range(200))
    kept = spill.parked(data)
    assert isinstance(kept, mmap.mmap)
    assert bytes(kept) == data
    changed = spill.edited(kept, {3: b"xy", 199: b"z"})
    assert isinstance(changed, mmap.mmap)
    assert bytes(changed) == data[:3] + b"xy" + data[5:199] + b"z"
    assert bytes(kept) == data


def test_small_bytes_stay_in_memory():
    assert spill.parked(b"abc") == b"abc"
    assert spill.edited(b"abc", {1: b"z"}) == b"azc"


def test_a_full_disk_costs_memory_alone(no_room):
    assert spill.parked(b"abc") == b"abc"
    assert spill.edited(b"abc", {1: b"z"}) == b"azc"
    module = torch.nn.Linear(2, 2)
    before = module.weight.detach().clone()
    spill.park_(module)
    assert torch.equal(module.weight, before)
    assert not is_mapped(module.weight)


def test_nothing_is_left_on_the_disk(everything_is_large, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = spill.parked(b"abcdef")
    assert bytes(kept) == b"abcdef"
    assert list(tmp_path.iterdir()) == []


def anonymous_bytes():
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


def share_of_an_oracle():
    """The memory of an oracle that has not trained yet, as a share of its weights."""
    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.types import Workload

    module = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)])
    gc.collect()
    spill.release()
    before = anonymous_bytes()
    oracle = Oracle(Workload(module, (torch.ones(1, 2048),)), learning_rate=0.1)
    assert all(torch.equal(oracle.parameters[n], p) for n, p in module.named_parameters())
    return (anonymous_bytes() - before) / sum(p.nbytes for p in module.parameters())


def test_a_resting_oracle_costs_no_memory():
    assert share_of_an_oracle() <= 0.1


def test_and_it_would_without_the_disk(monkeypatch):
    monkeypatch.setattr(spill, "LARGE_BYTES", 1 << 60)
    assert share_of_an_oracle() >= 0.9
