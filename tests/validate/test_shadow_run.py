"""Shadow execution of whole runs: streamed, in parts, chosen instructions, and its tolerances."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest
from fake_device import load_model, lowered, no_runtime

from graphcheck.errors import UsageError
from graphcheck.runtime.types import Trace, TrainRequest
from graphcheck.validate.ladder import Ladder


@pytest.fixture(scope="module")
def request_of_healthy(tmp_path_factory):
    from graphcheck.validate.batches import device_batches

    if no_runtime():
        pytest.skip(no_runtime())
    program = tmp_path_factory.mktemp("healthy") / "model.pte"
    program.write_bytes(lowered("healthy").program)
    return TrainRequest(program=program, batches=device_batches(load_model("healthy")), steps=3)


def _stage(**options):
    from graphcheck.runtime.devices.host import DEVICE
    from graphcheck.validate.shadow_stage import ShadowStage

    ladder, notes = Ladder(), []
    train = options.pop("train", DEVICE.train)
    return ShadowStage(train, ladder, notes, **options), ladder, notes


def _detail(ladder):
    stage = ladder.done["shadow"]
    return stage.outcome, stage.detail


def test_streamed_or_in_parts_the_same_instructions_are_seen(request_of_healthy, monkeypatch):
    from graphcheck.runtime.devices.host import DEVICE
    from graphcheck.validate import shadow_stage

    plain = DEVICE.train(request_of_healthy)
    count = len(lowered("healthy").instructions)
    streamed, ladder, _ = _stage(stream=DEVICE.stream)
    found = streamed.of_steps(request_of_healthy, lowered("healthy"), (0, 2), plain)
    assert (found.checked, found.wrong) == (2 * count, [])
    assert _detail(ladder) == ("pass", f"{2 * count} instructions right")
    passes = []

    def train(request):
        passes.append(request.dump_only)
        return DEVICE.train(request)

    monkeypatch.setattr(shadow_stage, "_CHUNK_BYTES", 40_000)
    parts, ladder, _ = _stage(train=train)
    found = parts.of_steps(request_of_healthy, lowered("healthy"), (0, 2), plain)
    assert len(passes) > 2
    assert [index for part in passes for index in part] == list(range(count))
    assert (found.checked, found.wrong) == (2 * count, [])


def test_recording_that_changes_the_losses_fails(request_of_healthy):
    from graphcheck.runtime.devices.host import DEVICE

    plain = DEVICE.train(request_of_healthy)
    steps = list(plain.steps)
    steps[1] = replace(steps[1], loss=float(numpy.nextafter(steps[1].loss, 2)))
    stage, ladder, _ = _stage(stream=DEVICE.stream)
    stage.of_steps(request_of_healthy, lowered("healthy"), (0, 2), Trace(steps=tuple(steps)))
    outcome, detail = _detail(ladder)
    assert outcome == "fail"
    assert detail.startswith("recording changes the run: loss 0.")
    assert "at step 1" in detail


def test_a_reader_that_breaks_ends_the_runner(request_of_healthy):
    from graphcheck.runtime.devices.host import DEVICE

    seen = []

    def take(record):
        seen.append(record)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        DEVICE.stream(replace(request_of_healthy, dump_step=0), take)
    assert len(seen) == 1


def test_a_crash_in_the_middle_is_told(request_of_healthy):
    from graphcheck.runtime.devices.host import DEVICE

    request = replace(request_of_healthy, dump_step=1, steps=1_000_000, timeout=3.0)
    seen = []
    trace = DEVICE.stream(request, seen.append)
    assert len(seen) == len(lowered("healthy").instructions)
    assert trace.failure.kind == "hang"
    assert trace.failure.message.startswith("the runtime did not end within 3 s")


def test_instructions_are_chosen_by_op_and_module(request_of_healthy):
    from graphcheck.runtime.devices.host import DEVICE
    from graphcheck.validate.shadow import selected

    program = lowered("healthy")
    by_op = selected(program, ["mm", "aten::permute_copy.*"], [])
    assert {i.op for i in by_op} == {"aten::mm.out", "aten::permute_copy.out"}
    module = next(i.source.module for i in program.instructions if i.op == "aten::mul.out")
    both = selected(program, ["mul"], [f"{module[:2]}*"])
    assert both
    assert all(i.op == "aten::mul.out" for i in both)
    stage, _, _ = _stage(stream=DEVICE.stream, ops=["mm"])
    found = stage.of_steps(request_of_healthy, program, (0,), None)
    assert found.checked == sum(i.op == "aten::mm.out" for i in program.instructions)
    stage, _, _ = _stage(stream=DEVICE.stream, ops=["nothing*"])
    with pytest.raises(UsageError, match=r"no instruction of the program fits --shadow-op noth"):
        stage.of_steps(request_of_healthy, program, (0,), None)
    stage, _, _ = _stage(stream=DEVICE.stream, modules=["nowhere*"])
    with pytest.raises(UsageError, match=r"fits --shadow-module nowhere\*$") as caught:
        stage.of_steps(request_of_healthy, program, (0,), None)
    assert module in caught.value.hint
    assert "aten::" not in caught.value.hint


def _bounds(target, given, *, pointwise=False, results=1):
    from graphcheck.validate.shadow_eager import Replay
    from graphcheck.validate.shadow_tolerance import Bounds

    replay = Replay.__new__(Replay)
    replay.given, replay.target, replay.outs = given, target, []
    made = target(**given)
    listed = list(made) if isinstance(made, (tuple, list)) else [made]
    replay.dtypes = [result.dtype for result in listed]
    return Bounds(replay, replay.native(), pointwise)


def _wrong_entries(bounds, made, index=0):
    from graphcheck.validate.shadow import _bad

    bad, _ = _bad(bounds, index, made, exact_op=False)
    return 0 if bad is None else int(bad.sum())


def test_small_entries_are_held_to_their_own_size():
    import torch

    x = torch.logspace(-20, 10, 31)
    bounds = _bounds(torch.ops.aten.exp.default, {"self": -x.abs()}, pointwise=True)
    made = bounds.native[0].clone()
    assert _wrong_entries(bounds, made * (1 + 2e-7)) == 0
    # Far below any share of the largest entry, which is 1.
    spoiled = made.clone()
    spoiled[21] *= 1.001
    assert _wrong_entries(bounds, spoiled) == 1
    spoiled[3] = float("nan")
    assert _wrong_entries(bounds, spoiled) == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_another_order_of_summation_is_right_and_a_lost_term_wrong(dtype):
    import torch

    torch.manual_seed(5)
    dtype = getattr(torch, dtype)
    a, b = torch.randn(7, 300).to(dtype), torch.randn(300, 5).to(dtype)
    bounds = _bounds(torch.ops.aten.mm.default, {"self": a, "mat2": b})
    backwards = (a.double().flip(1).float() @ b.double().flip(0).float()).to(dtype)
    assert _wrong_entries(bounds, backwards) == 0
    sequential = torch.zeros(7, 5)
    for k in range(300):
        sequential += a[:, k : k + 1].float() * b[k].float()
    assert _wrong_entries(bounds, sequential.to(dtype)) == 0
    lost = (a[:, :-1].double() @ b[:-1].double()).to(dtype)
    assert _wrong_entries(bounds, lost) > 25


def test_sums_of_halves_in_half_are_wrong():
    import torch

    torch.manual_seed(5)
    a = (torch.rand(2, 2000) + 0.5).bfloat16()
    bounds = _bounds(torch.ops.aten.sum.dim_IntList, {"self": a, "dim": [1]})
    total = torch.zeros(2, dtype=torch.bfloat16)
    for k in range(2000):
        total = total + a[:, k]
    assert _wrong_entries(bounds, total) == 2


def test_a_norm_without_its_epsilon_is_wrong():
    import torch

    torch.manual_seed(5)
    x, weight, bias = torch.randn(20, 16), torch.rand(16) + 0.5, torch.randn(16)
    given = {"input": x, "normalized_shape": [16], "weight": weight, "bias": bias, "eps": 1e-5}
    bounds = _bounds(torch.ops.aten.native_layer_norm.default, given)
    norm = torch.nn.functional.layer_norm
    double = norm(x.double(), [16], weight.double(), bias.double(), 1e-5).float()
    assert _wrong_entries(bounds, double) == 0
    without = norm(x.double(), [16], weight.double(), bias.double(), 0.0).float()
    assert _wrong_entries(bounds, without) > 100


def test_indices_are_held_to_the_values_they_pick():
    import torch

    from graphcheck.validate.ties.picks import wrong_picks

    x = torch.tensor([[[[1.0, 3.0, 3.0, 0.0], [2.0, 0.0, 1.0, 3.0]]]])
    given = {"self": x, "kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0]}
    given["dilation"] = [1, 1]
    bounds = SimpleNamespace(replay=SimpleNamespace(given=given), name="max_pool2d_with_indices")
    values = torch.tensor([[[[3.0, 3.0]]]])
    for index, wrong in (([1, 2], 0), ([1, 7], 0), ([2, 2], 1), ([1, 3], 1), ([-1, 99], 2)):
        bad = wrong_picks(bounds, torch.tensor([[[index]]]), [values])
        assert (0 if bad is None else int(bad.sum())) == wrong, index


@pytest.mark.parametrize(
    ("checked", "told"), [(1, "1 instruction right"), (2, "2 instructions right")]
)
def test_one_instruction_is_not_several(checked, told):
    from graphcheck.validate.types import Shadow

    stage, ladder, _ = _stage()
    stage._tell(Shadow(checked=checked), 0.0, None, "")
    assert _detail(ladder) == ("pass", told)
