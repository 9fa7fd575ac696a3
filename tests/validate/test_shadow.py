"""Shadow execution: right instructions stay silent, a spoiled one is named, and only that one."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy
import pytest
from fake_device import load_model, lowered, no_runtime, trained


@cache
def _dump(name):
    import tempfile

    from graphcheck.runtime.devices.interface import device
    from graphcheck.runtime.types import TrainRequest
    from graphcheck.validate.batches import device_batches

    if no_runtime():
        pytest.skip(no_runtime())
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "model.pte"
        program.write_bytes(lowered(name).program)
        batches = device_batches(load_model(name))
        request = TrainRequest(program=program, batches=batches, steps=1, dump_step=0)
        return device("host").train(request)


def _shadow(name, dump):
    from graphcheck.validate.shadow import shadow

    return shadow(lowered(name), dump)


@pytest.mark.parametrize("name", ["healthy", "tied_weights", "counter_buffer", "pool_first"])
def test_right_instructions(name):
    trace = _dump(name)
    found = _shadow(name, trace.dump)
    assert found.wrong == []
    assert found.unchecked == []
    assert found.checked == trace.instructions == len(trace.dump)


@pytest.mark.parametrize("size", [1e-3, numpy.nan])
def test_one_spoiled_output_is_named_alone(size):
    dump = list(_dump("healthy").dump)
    spoiled = [r.instruction for r in dump if r.op == "aten::native_group_norm_backward.out"]
    spoiled = spoiled or [r.instruction for r in dump if r.op == "aten::mm.out"]
    record = dump[spoiled[0]]
    array = record.outputs[0].array.copy()
    array.flat[0] += size * abs(array).max()
    dump[spoiled[0]] = replace(
        record, outputs=(replace(record.outputs[0], array=array), *record.outputs[1:])
    )
    found = _shadow("healthy", dump)
    assert [wrong.instruction for wrong in found.wrong] == [spoiled[0]]
    assert found.wrong[0].op == record.op
    assert found.wrong[0].module
    assert not (found.wrong[0].error <= found.wrong[0].tolerance)


def test_gradients_have_their_true_names():
    """What the shifted training metadata calls a.weight is the gradient of b.weight."""
    from graphcheck.validate.emitted import values_of_outputs
    from graphcheck.validate.oracle import Oracle

    trace = _dump("counter_buffer")
    loss, gradients = values_of_outputs(lowered("counter_buffer"), trace.dump)
    eager = Oracle(load_model("counter_buffer"), learning_rate=0.05).step(0)
    assert loss == pytest.approx(eager.loss, rel=1e-6)
    assert set(gradients) == {"a.weight", "b.weight", "c.weight"}
    for name, gradient in gradients.items():
        numpy.testing.assert_allclose(gradient, eager.gradients[name], atol=1e-6)
    named = trace.steps[0].gradients
    numpy.testing.assert_array_equal(named["a.weight"], gradients["b.weight"])


def test_a_scaled_dropout_is_right_and_a_biased_one_wrong():
    dump = list(_dump("dropout").dump)
    index = next(r.instruction for r in dump if r.op == "aten::native_dropout.out")
    record = dump[index]
    made, mask = record.outputs
    source = record.arguments[0].array

    def with_outputs(array, kept):
        changed = replace(record, outputs=(replace(made, array=array), replace(mask, array=kept)))
        return _shadow("dropout", [*dump[:index], changed, *dump[index + 1 :]]).wrong

    assert with_outputs(source * mask.array * 2, mask.array) == []
    (found,) = with_outputs(source * 2, numpy.ones_like(mask.array))
    assert found.detail == "the mean of its draws is 1, not 0.5"
    (found,) = with_outputs(source + 1, mask.array)
    assert found.detail == "the output is not input * mask / (1-p)"


def test_a_rewritten_dropout_matches(monkeypatch):
    """rand, a comparison and a product: replayed through the mask of the comparison."""
    from graphcheck.options import ValidateOptions
    from graphcheck.rewrite.apply import apply
    from graphcheck.rewrite.interface import rewrites_for
    from graphcheck.runtime.lower import lower
    from graphcheck.validate import replay
    from graphcheck.validate.run import validate_workload

    if no_runtime():
        pytest.skip(no_runtime())
    rewrite = rewrites_for("aten.native_dropout.default")[0]

    def choose(node):
        return rewrite if str(node.target) == rewrite.op else None

    counted = []
    wrong = replay._Shares.wrong

    def watched(shares):
        counted.extend(total[3] for total in shares.sums.values())
        return wrong(shares)

    monkeypatch.setattr(replay._Shares, "wrong", watched)
    workload = load_model("dropout")
    dropped = []
    for module in workload.module.modules():
        if type(module).__name__ == "Dropout":
            hook = module.register_forward_hook(lambda _, __, got: dropped.append(got.numel()))
    workload.module(*workload.inputs)
    hook.remove()
    rewritten = lower(workload, transform=lambda program: apply(program, choose)[0])
    verdict = validate_workload(workload, ValidateOptions(target=""), lowered=rewritten)
    assert verdict.verdict == "match"
    # Once a step, however often the step is computed again.
    assert counted == [20 * dropped[0]]
    assert verdict.reason == (
        "the loss and 4 gradients agree with eager under the runtime's own draws at each of 20 "
        "steps"
    )


def test_a_mask_of_the_wrong_share():
    """Replayed draws hide a wrong probability: the share that is kept shows it."""
    from graphcheck.options import ValidateOptions
    from graphcheck.rewrite.apply import apply
    from graphcheck.rewrite.interface import rewrites_for
    from graphcheck.runtime.lower import lower
    from graphcheck.validate.run import validate_workload

    if no_runtime():
        pytest.skip(no_runtime())
    rewrite = rewrites_for("aten.native_dropout.default")[0]

    def rarer(program):
        program = apply(program, lambda n: rewrite if str(n.target) == rewrite.op else None)[0]
        compared = [n for n in program.graph.nodes if str(n.target).startswith("aten.lt.")]
        assert [node.args[1] for node in compared] == [0.5]
        compared[0].args = (compared[0].args[0], 0.4)
        return program

    workload = load_model("dropout")
    verdict = validate_workload(
        workload, ValidateOptions(target=""), lowered=lower(workload, transform=rarer)
    )
    assert verdict.verdict == "diverged"
    assert re.match(
        r"the masks of bernoulli keep 0\.(39|40)\d* of the entries, not 0\.5", verdict.reason
    )
    assert max(verdict.worst_gradient_errors.values()) < 1e-4
    assert any("with the runtime's own draws replayed in eager" in note for note in verdict.notes)


def test_a_wrong_instruction_decides_where_draws_cannot_be_replayed():
    """By distribution alone a small fault in a random model would go unseen."""
    from graphcheck.options import ValidateOptions
    from graphcheck.validate.run import validate_workload

    records = {record.instruction: record for record in _dump("dropout").dump}
    dropout = next(r for r in records.values() if r.op == "aten::native_dropout.out")
    # Without its record the draws are not known, and its missing scale is not seen.
    del records[dropout.instruction]

    def validate():
        def train(request):
            trace = trained(load_model("dropout"), request.steps, amplitude=0)
            return replace(trace, dump=tuple(records.values()) if request.dump_step == 0 else ())

        return validate_workload(
            load_model("dropout"),
            ValidateOptions(target="", steps=5),
            lowered=lowered("dropout"),
            train=train,
        )

    verdict = validate()
    assert verdict.verdict == "match"
    assert any("NOT COMPARED: any entry by itself" in note for note in verdict.notes)
    wrong = [r for r in records.values() if r.op == "aten::mm.out"][-1]
    output = wrong.outputs[0]
    records[wrong.instruction] = replace(
        wrong, outputs=(replace(output, array=output.array * 1.001),)
    )
    verdict = validate()
    assert verdict.verdict == "diverged"
    assert verdict.reason.startswith(
        f"instruction {wrong.instruction} (aten::mm.out) computes something else than eager from "
        "the same inputs, and the gradient of a.weight depends on it"
    )
