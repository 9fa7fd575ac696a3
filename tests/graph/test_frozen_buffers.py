"""Buffers that forward changes: kept by every export, or told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import graphcheck
from graphcheck.errors import ModelError
from graphcheck.graph.assigned_buffers import assignments_written, dropped_assignments
from graphcheck.graph.capture import exported_program
from graphcheck.graph.trace import export
from graphcheck.workload.types import Workload

X = torch.linspace(-1, 1, 24).reshape(6, 4)


class Norm(nn.Module):
    """A batch norm as it is written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.tensor(0))
        self.mean: Tensor
        self.steps: Tensor

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x - self.mean
        now = x.mean(0)
        self.mean = 0.9 * self.mean + 0.1 * now.detach()
        self.steps = self.steps + 1
        return x - now


class Read(Norm):
    """What was assigned is read in the same step, and what was there before it, too."""

    def forward(self, x: Tensor) -> Tensor:
        before = x * self.mean
        self.mean = self.mean.lerp(x.detach().mean(0), 0.2)
        return x * self.mean + before


class Around(nn.Module):
    def __init__(self, inner: type[nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.inner, self.last = nn.Linear(4, 4), inner(), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(self.first(x)).tanh()).square().mean()


class Data(Norm):
    """Puts other memory under the buffer."""

    def forward(self, x: Tensor) -> Tensor:
        self.mean.data = 0.5 * self.mean + x.detach().mean(0)
        return x - self.mean


class Growing(Norm):
    """A cache of another shape, from which nothing is read but what was just put there."""

    def forward(self, x: Tensor) -> Tensor:
        if self.mean.shape[0] != x.shape[0]:
            self.mean = torch.zeros(x.shape[0])
        return x + self.mean[: x.shape[0], None]


class Longer(Norm):
    """A buffer that becomes longer, and whose length counts."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.mean.shape[0]
        self.mean = torch.cat([self.mean, self.mean[:1]])
        return y


class Halves(nn.Module):
    """A whole number that becomes a fraction; on the outermost module export writes it cut."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 2)
        self.register_buffer("n", torch.tensor(0))
        self.n: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.n = self.n + 0.5
        return self.layer(x).square().mean() * self.n


def test_another_type_is_told() -> None:
    with pytest.raises(
        ModelError, match=r"the buffer n as it was .* at step 1 the gradient of lay"
    ):
        exported_program(Workload(Halves(), (X,)))


class Unchanged(Norm):
    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean.to(x.dtype)
        return x - self.mean


class WithoutGradient(Norm):
    """Written in place and assigned, both where gradients are off."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.steps.add_(1)
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class Queue(Norm):
    """Written through views: a row, a slice, a reshaped one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(8, 4))
        for name in ("flat", "parts", "counts"):
            self.register_buffer(name, torch.ones(4))
        self.rows: Tensor
        self.flat: Tensor
        self.parts: Tensor
        self.counts: Tensor

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.rows[2:8] = x
            self.mean[1] = x.mean()
            self.flat.view(2, 2).t().add_(1.0)
            self.parts.chunk(2)[1].add_(1.0)
            self.counts.unbind()[0].mul_(2.0)
        return x + self.rows.mean() + self.mean


def workload(inner: type[nn.Module]) -> Workload:
    return Workload(Around(inner), (X,), root_type="Around", target="model.py")


def test_export_drops_what_an_inner_module_assigns() -> None:
    subject = workload(Norm)
    for strict in (False, True):
        exported = export(subject, strict=strict)
        assert dropped_assignments(exported, subject) == ("inner.mean", "inner.steps")
    with assignments_written(subject.module):
        exported = export(subject, strict=False)
    assert dropped_assignments(exported, subject) == ()
    assert "forward" not in vars(subject.module)
    assert torch.equal(subject.module.inner.mean, torch.zeros(4))


@pytest.mark.parametrize(
    "norm",
    [nn.BatchNorm1d(4), nn.BatchNorm1d(4).eval(), nn.InstanceNorm1d(6, track_running_stats=True)],
)
def test_batch_norms_write_their_statistics_themselves(norm: nn.Module) -> None:
    module = nn.Sequential(nn.Linear(4, 4), norm)
    subject = Workload(module, (X[None] if isinstance(norm, nn.InstanceNorm1d) else X,))
    assert dropped_assignments(export(subject, strict=False), subject) == ()


def test_a_forward_of_the_instance_comes_back() -> None:
    module = Around(Norm)
    own = module.forward
    module.forward = own  # type: ignore[method-assign]
    with assignments_written(module):
        assert module.forward is not own
    assert vars(module)["forward"] is own


@pytest.mark.parametrize("inner", [WithoutGradient, Queue])
@pytest.mark.parametrize("strict", [False, True])
def test_writes_are_seen_through_views_and_inner_graphs(
    inner: type[nn.Module], strict: bool
) -> None:
    subject = workload(inner)
    dropped = dropped_assignments(export(subject, strict=strict), subject)
    assert dropped == (("inner.mean",) if inner is WithoutGradient else ())


@pytest.mark.parametrize("inner", [Norm, Read, WithoutGradient, Queue])
def test_they_move_on_in_the_runtime(inner: type[nn.Module], tmp_path: Path) -> None:
    report = graphcheck.check(Around(inner), (X,))
    assert [f.code for f in report.findings if f.code[:3] in ("GC0", "GC5")] == ["GC501"]
    card = graphcheck.export(Around(inner), (X,), tmp_path / "model.pte").card
    assert card.verdict == "match"
    names = {Norm: ["mean", "steps"], Read: ["mean"], WithoutGradient: ["mean", "steps"]}
    assert sorted(card.mutated_buffers) == [
        f"inner.{name}" for name in names.get(inner, ["counts", "flat", "mean", "parts", "rows"])
    ]


def test_what_no_export_keeps_is_told() -> None:
    with pytest.raises(ModelError) as caught:
        exported_program(workload(Data))
    assert (caught.value.code, caught.value.message, caught.value.hint) == (
        "GC016",
        "Export keeps the buffer inner.mean as it was while tracing, but forward changes it: at "
        "step 1 the gradient of last.weight would be off by 0.61 of its largest entry (4 "
        "parameters are affected).",
        "Write it in place: self.mean.copy_(...), in one shape.",
    )
    report = graphcheck.check(Around(Data), (X,))
    assert [f.code for f in report.findings] == ["GC016"]


def test_another_length_is_told_where_it_counts() -> None:
    with pytest.raises(ModelError, match=r"the buffer inner\.mean as it was .* at step 1 the grad"):
        exported_program(workload(Longer))


@pytest.mark.parametrize("inner", [Growing, Unchanged])
def test_what_changes_nothing_is_not(inner: type[nn.Module], tmp_path: Path) -> None:
    assert graphcheck.export(Around(inner), (X,), tmp_path / "model.pte").card.verdict == "match"
