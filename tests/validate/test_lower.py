"""Stock lowering: failures decoded into sentences, instructions led back to modules and lines."""

from __future__ import annotations

import pytest
from fake_device import MODELS, load_model, lowered


@pytest.mark.parametrize(
    ("name", "stage", "message"),
    [
        (
            "batch_norm",
            "lower",
            "to_edge refuses aten._native_batch_norm_legit_functional (norm): not core ATen",
        ),
        (
            "attention",
            "lower",
            "to_edge refuses aten._scaled_dot_product_flash_attention_for_cpu_backward (forward): "
            "not core ATen",
        ),
        ("silu", "lower", "to_edge refuses aten.empty_permuted (forward): not core ATen"),
        (
            "unused_parameter",
            "joint",
            "parameters spare.weight, spare.bias get no gradient from the loss: "
            "torch cannot make the joint graph",
        ),
    ],
)
def test_refusals(name, stage, message):
    found = lowered(name)
    assert found.program is None
    assert found.instructions == ()
    assert (found.stages[-1].name, found.failure.message) == (stage, message)
    assert all(s.failure is None for s in found.stages[:-1])


def test_without_the_ir_check_the_failure_moves_on():
    from graphcheck.runtime.lower import lower

    found = lower(load_model("batch_norm"), retry_without_ir_check=True)
    assert not found.ir_checked
    assert found.failure.message == (
        "to_executorch finds no out variant for aten._native_batch_norm_legit_functional (norm)"
    )
    assert found.failure.modules == ("norm",)


def test_retry_without_the_ir_check_is_noted():
    from graphcheck.runtime.lower import lower

    found = lower(load_model("silu"), retry_without_ir_check=True)
    assert found.program
    assert found.notes == [
        "to_edge refuses aten.empty_permuted (forward): not core ATen; lowered without the IR check"
    ]


def test_pool_backward_instructions_lead_back_to_their_modules():
    found = lowered("seed_cnn")
    pools = [i for i in found.instructions if i.op.startswith("aten::max_pool2d_with_indices")]
    lines = (MODELS / "seed_cnn.py").read_text().splitlines()
    assert [(i.op.partition("::")[2], i.source.module, i.backward) for i in pools] == [
        ("max_pool2d_with_indices.out", "pool1", False),
        ("max_pool2d_with_indices.out", "pool2", False),
        ("max_pool2d_with_indices_backward.grad_input", "pool2", True),
        ("max_pool2d_with_indices_backward.grad_input", "pool1", True),
    ]
    for pool in pools:
        assert pool.source.file == str(MODELS / "seed_cnn.py")
        assert f"self.{pool.source.module}(" in lines[pool.source.line - 1]


@pytest.mark.parametrize("name", ["seed_cnn", "healthy", "counter_buffer", "tied_weights"])
def test_every_instruction_is_the_one_of_the_program(name, tmp_path):
    from graphcheck.graph.pte import read_pte

    found = lowered(name)
    (tmp_path / "model.pte").write_bytes(found.program)
    method = read_pte(tmp_path / "model.pte").method("forward")
    assert [i.op for i in found.instructions] == [i.op for i in method.instructions]
    unknown = [i.op for i in found.instructions if not i.node]
    # The copy into the mutated buffer comes in while lowering.
    assert unknown == (["aten::copy_"] if name == "counter_buffer" else [])


def test_tied_weights_are_exported_strictly():
    assert lowered("tied_weights").traced.strict
    assert not lowered("healthy").traced.strict


def test_a_transform_changes_what_is_lowered():
    from graphcheck.runtime.lower import lower

    def failing(joint):
        raise ValueError("no such rewrite")

    found = lower(load_model("pool_first"), transform=failing)
    assert found.failure.message == "lower failed: ValueError: no such rewrite"


def test_module_names_are_shortened():
    from graphcheck.runtime.lower_failure import name_modules

    assert name_modules(()) == ""
    assert name_modules(("a", "b")) == " (a, b)"
    assert name_modules(tuple("abcde")) == " (a, b, c and 2 more)"
