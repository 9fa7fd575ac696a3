from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from graphcheck.graph.trace import MARK, export, trace_joint
from graphcheck.rewrite.apply import apply, qualified_name
from graphcheck.rewrite.interface import Rewrite, all_rewrites
from graphcheck.workload.types import Workload

POOL = "aten.max_pool2d_with_indices_backward.default"
SCATTER = next(one for one in all_rewrites() if one.op == POOL)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3)
        self.b = nn.Conv2d(4, 2, 3)

    def forward(self, input, scale):
        h = F.max_pool2d(torch.relu(self.a(input)), 2)
        return (F.max_pool2d(self.b(h), 2) * scale).sum()


def joint(dynamic=False):
    batch = torch.export.Dim("batch", min=2, max=8)
    shapes = {"input": {0: batch}, "scale": None} if dynamic else None
    module, inputs = Net(), (torch.randn(3, 3, 14, 14), torch.randn(1))
    exported = torch.export.export(module, inputs, dynamic_shapes=shapes)
    return trace_joint(exported, strict=False).joint


@pytest.fixture(scope="module")
def program():
    return joint()


def every(rewrite):
    return lambda node: rewrite if qualified_name(node.target) == rewrite.op else None


def named(program, name):
    return [node for node in program.graph.nodes if qualified_name(node.target) == name]


def variant(decompose, op=POOL, name="variant", stage="joint"):
    return Rewrite(name, op, "formula", "source", decompose, stage)


def outputs(program):
    return next(node for node in program.graph.nodes if node.op == "output").args[0]


def test_only_the_chosen_node(program):
    first = named(program, POOL)[0].name
    changed, done = apply(program, lambda node: SCATTER if node.name == first else None)
    assert [one.node for one in done] == [first]
    assert len(named(program, POOL)) == 2
    assert len(named(changed, POOL)) == 1
    kept = [node.name for node in program.graph.nodes if node.name != first]
    assert [n.name for n in changed.graph.nodes if n.name not in done[0].new_nodes] == kept


def test_provenance_of_new_nodes(program):
    old = named(program, POOL)[0]
    changed, done = apply(program, every(SCATTER))
    new = [node for node in changed.graph.nodes if node.name in done[0].new_nodes]
    assert len(new) == len(done[0].new_nodes) > 3
    for node in new:
        assert node.meta["custom"][MARK] == old.meta["custom"][MARK]
        assert node.meta["partitioner_tag"] == "is_backward"
        assert node.meta["stack_trace"] == old.meta["stack_trace"]
        assert isinstance(node.meta["val"], torch.Tensor)


def test_memory(program):
    _, done = apply(program, every(SCATTER))
    result = named(program, POOL)[0].meta["val"]
    # A tensor of zeros and the scattered one.
    assert done[0].old_bytes == result.numel() * 4
    assert done[0].new_bytes == 2 * done[0].old_bytes
    assert done[0].growth == done[0].old_bytes


def test_twice_changes_nothing(program):
    changed, done = apply(program, every(SCATTER))
    again, more = apply(changed, every(SCATTER))
    assert len(done) == 2
    assert again is changed
    assert more == []


def test_meaning_is_kept():
    module, inputs = Net(), (torch.randn(3, 3, 14, 14), torch.randn(1))
    traced = trace_joint(torch.export.export(module, inputs), strict=False).joint
    changed, _ = apply(traced, every(SCATTER))
    weights = tuple(module.parameters())
    before = traced.graph_module(*weights, *inputs)
    after = changed.graph_module(*weights, *inputs)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other)


def test_outputs_are_renamed(program):
    bias = "aten.convolution_backward.default"

    def decompose(grad, x, weight, sizes, *rest):
        found = torch.ops.aten.convolution_backward.default(grad, x, weight, sizes, *rest)
        return [None if one is None else one * 1.0 for one in found]

    changed, _ = apply(program, every(variant(decompose, bias)))
    names = [spec.arg.name for spec in changed.graph_signature.output_specs]
    assert names == [node.name for node in outputs(changed)]
    old = [spec.arg.name for spec in program.graph_signature.output_specs]
    assert names != old
    assert [spec.target for spec in changed.graph_signature.output_specs] == [
        spec.target for spec in program.graph_signature.output_specs
    ]


def test_symbolic_sizes_survive():
    traced = joint(dynamic=True)
    changed, done = apply(traced, every(SCATTER))
    assert all(one.applied for one in done)
    sizes = [
        size
        for node in changed.graph.nodes
        if node.name in done[0].new_nodes and isinstance(node.meta["val"], torch.Tensor)
        for size in node.meta["val"].shape
    ]
    assert any(isinstance(size, torch.SymInt) for size in sizes)


def test_declining_hands_on(program):
    declines = variant(lambda *_: NotImplemented)
    _, done = apply(program, every(declines), candidates=lambda _: (declines, SCATTER))
    assert {one.rewrite for one in done} == {SCATTER}
    kept, done = apply(program, every(declines), candidates=lambda _: ())
    assert kept is program
    assert [one.applied for one in done] == [False, False]
    assert done[0].reason == f"variant cannot express these arguments of {POOL}"


def test_strides_of_the_op_are_kept(program):
    def decompose(grad, x, *_):
        turned = torch.ops.aten.full.default(list(reversed(x.shape)), 0.0, dtype=x.dtype)
        return turned.permute(3, 2, 1, 0)

    changed, done = apply(program, every(variant(decompose)))
    last = next(node for node in changed.graph.nodes if node.name == done[0].new_nodes[-1])
    assert last.meta["val"].is_contiguous()


@pytest.mark.parametrize(
    ("decompose", "message"),
    [
        (lambda grad, x, *_: grad, "result 0 has shape"),
        (lambda grad, x, *_: x.double(), "is torch.float64"),
        (lambda grad, x, *_: x * torch.tensor([1.0]), "lifts a constant"),
        (lambda grad, x, *_: (x * 1).add_(1), "writes into its argument"),
        (lambda grad, x, *_: torch.ops.aten.relu_(x * 1), "writes into its argument"),
    ],
)
def test_broken_contract(program, decompose, message):
    with pytest.raises(ValueError, match=message):
        apply(program, every(variant(decompose)))


def test_forward_stage():
    module, inputs = Net(), (torch.randn(3, 3, 14, 14), torch.randn(1))
    workload = Workload(module=module, inputs=inputs)
    exported = export(workload, strict=False)
    relu = variant(lambda x: torch.clamp(x, min=0), "aten.relu.default", stage="forward")
    changed, done = apply(exported, every(relu), stage="forward")
    assert [one.op for one in done] == ["aten.relu.default"]
    new = [node for node in changed.graph.nodes if node.name in done[0].new_nodes]
    assert "nn_module_stack" in new[0].meta
    gradients = trace_joint(changed, strict=False).joint
    assert len(outputs(gradients)) == len(outputs(joint()))
