"""Models in channels_last: row-major as exported, the same numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphcheck.errors import DeviceError

torch = pytest.importorskip("torch")


class Last(torch.nn.Module):
    """Weights, input and two requests of forward in channels_last."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.b = torch.nn.Conv2d(4, 4, 3)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        last = torch.channels_last
        hidden = torch.relu(self.a(x)).to(memory_format=last)
        hidden = torch.cat([hidden, hidden * 2], 1)[:, :4].contiguous(memory_format=last)
        return (self.b(hidden + hidden[:, :1]).softmax(1) ** 2).sum()


def _workload(x=None):
    from graphcheck.workload.types import Workload

    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 6) if x is None else x
    return Workload(Last(), (x.to(memory_format=torch.channels_last),), root_type="Last")


def _findings(traced, workload):
    from graphcheck.graph.capture import describe
    from graphcheck.judging import consult, run_rules
    from graphcheck.opset.load import load

    graph = describe(traced, workload)
    return run_rules(graph, consult(graph, load("1.5.1"))[0])


def test_no_tensor_of_the_graph_is_in_another_layout():
    from graphcheck.export.layout import contiguous_, contiguous_requests_, wants_default_layout
    from graphcheck.graph.capture import exported_program, joint_program, trace

    workload = _workload()
    workload = replace(workload, batches=((workload.inputs, {}),) * 2)
    before = workload.module(*workload.inputs)
    assert wants_default_layout(_findings(trace(workload), workload))
    mended, told = contiguous_(workload)
    assert told == (
        "made row-major: a.weight, b.weight",
        "1 input made row-major: feed the program row-major tensors of the same shape",
    )
    assert all(batch[0][0].is_contiguous() for batch in mended.batches)
    exported, strict = exported_program(mended)
    (request,) = contiguous_requests_(exported)
    assert request.endswith("of forward for another memory layout dropped")
    traced = joint_program(exported, mended, strict=strict)
    for node in traced.joint.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.dim() == 4:
            assert value.is_contiguous() or node.op == "call_function", node
    assert not wants_default_layout(_findings(traced, mended))
    torch.testing.assert_close(mended.module(*mended.inputs), before)
    assert contiguous_(mended)[1] == ()


class Pointwise(torch.nn.Module):
    """Nothing in memory tells a 1x1 kernel or a single channel of channels_last: strides do."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Conv2d(1, 4, 3)
        self.b = torch.nn.Conv2d(4, 4, 1).to(memory_format=torch.channels_last)

    def forward(self, x):
        return self.b(self.a(x)).cumsum(1).square().mean()


def test_strides_of_dims_of_size_one_are_row_major_too():
    from graphcheck.export.layout import contiguous_, wants_default_layout
    from graphcheck.graph.capture import trace
    from graphcheck.workload.types import Workload

    x = torch.randn(2, 1, 6, 6).to(memory_format=torch.channels_last)
    workload = Workload(Pointwise(), (x,))
    assert wants_default_layout(_findings(trace(workload), workload))
    mended, told = contiguous_(workload)
    assert told == (
        "made row-major: b.weight",
        "1 input made row-major: feed the program row-major tensors of the same shape",
    )
    # In memory it is as it was.
    assert mended.inputs[0].data_ptr() == x.data_ptr()
    assert not wants_default_layout(_findings(trace(mended), mended))


class Solve(torch.nn.Module):
    """A solver makes its result column by column, whatever the layout of model and inputs."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 1)

    def forward(self, x):
        y = self.conv(x).to(memory_format=torch.channels_last).cumsum(1)
        return torch.linalg.inv_ex(y)[0].cumsum(1).mean() + y.mean()


def test_row_major_is_offered_only_where_it_mends():
    from graphcheck.export.layout import contiguous_, contiguous_requests_
    from graphcheck.graph.capture import exported_program, joint_program, trace
    from graphcheck.workload.types import Workload

    workload = Workload(Solve(), (torch.randn(2, 1, 4, 4),))
    found = [f for f in _findings(trace(workload), workload) if f.code in ("GC205", "GC206")]
    offered = {f.nodes for f in found if any(m.kind == "layout" for m in f.mends)}
    left = {f.nodes for f in found} - offered
    assert ("cumsum",) in offered
    assert ("cumsum_1",) in left
    # What an export leaves is what was not offered.
    mended, _ = contiguous_(workload)
    exported, strict = exported_program(mended)
    assert contiguous_requests_(exported)
    traced = joint_program(exported, mended, strict=strict)
    again = _findings(traced, mended)
    assert {f.nodes for f in again if f.code in ("GC205", "GC206")} == left


def test_what_is_row_major_stays_as_it_is():
    from graphcheck.export.layout import contiguous_, contiguous_requests_
    from graphcheck.graph.capture import exported_program
    from graphcheck.workload.types import Workload

    linear = torch.nn.Linear(3, 2)

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = linear

        def forward(self, x):
            return self.linear(x).sum()

    workload = Workload(Loss(), (torch.ones(4, 3),))
    before = linear.weight.data_ptr()
    same, told = contiguous_(workload)
    assert told == ()
    assert same.inputs[0] is workload.inputs[0]
    assert linear.weight.data_ptr() == before
    assert contiguous_requests_(exported_program(workload)[0]) == ()


@pytest.mark.parametrize(
    ("tensor", "row_major"),
    [
        (torch.zeros(2, 3, 4, 4), True),
        (torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last), False),
        (torch.zeros(2, 1, 4, 4).to(memory_format=torch.channels_last), True),
        (torch.zeros(3, 4).t(), False),
        (torch.zeros(1, 4).t(), True),
        (torch.zeros(4, 1).expand(4, 3), True),
        (torch.zeros(1, 4).expand(3, 4), False),
    ],
)
def test_row_major(tensor, row_major):
    from graphcheck.rewrite.layout import is_row_major

    assert is_row_major(tensor) is row_major


def test_it_trains(tmp_path):
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions
    from graphcheck.runtime.build import build_runner

    try:
        build_runner()
    except DeviceError as error:
        pytest.skip(error.message)
    options = ExportOptions(target="Last", output=str(tmp_path / "last.pte"), steps=3)
    result = export_workload(replace(_workload(), target="Last"), options)
    assert result.failure == ""
    assert result.card.verdict == "match"
    assert [c for c in result.card.corrections if "row-major" in c]
