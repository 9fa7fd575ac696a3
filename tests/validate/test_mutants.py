"""Faulty kernels are caught and named; the same models without one are right. See bench/mutants."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fake_device import no_runtime

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "mutants"))

import mutant_runs  # noqa: E402

MODEL = "convolutions"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if no_runtime():
        pytest.skip(no_runtime())
    return mutant_runs.build_mutants(
        tmp_path_factory.mktemp("mutants"), ("convolutions", "elementwise", "pools")
    )


@pytest.fixture(scope="module")
def right_pools(library):
    """The kernel of ours that clears its memory: the runtime's own is wrong on any max pool."""
    from graphcheck.patch.library.build import build_library

    return build_library(library.parent / "right", ops=["max_pool2d_with_indices_backward"]).library


@pytest.fixture(scope="module")
def caught(library, tmp_path_factory):
    """Verdicts by mutant, with reproducers; the healthy control is ""."""
    folder = tmp_path_factory.mktemp("reproducers")
    names = ("", "relu_nan_at_zero", "conv_backward_mirrored_weight", "sub_writes_beside")
    return {
        name: mutant_runs.validate(MODEL, (library,), name, reproducers=str(folder / name))
        for name in names
    }


def test_the_table_has_at_least_forty_mutants():
    found = mutant_runs.mutants()
    assert len(found) >= 40
    assert len({mutant.name for mutant in found}) == len(found)


def test_a_healthy_model_is_silent(caught):
    verdict = caught[""]
    assert verdict.verdict == "match"
    assert verdict.wrong == ()
    count = len(mutant_runs.lowered(MODEL).instructions)
    assert verdict.shadow_instructions == 2 * count
    stage = next(stage for stage in verdict.stages if stage.name == "shadow")
    assert (stage.outcome, stage.detail) == ("pass", f"{2 * count} instructions right")


@pytest.mark.parametrize(
    ("name", "op", "count"),
    [
        ("relu_nan_at_zero", "aten::relu.out", 1),
        ("conv_backward_mirrored_weight", "aten::convolution_backward.out", 3),
        ("sub_writes_beside", "aten::sub.out", 3),
    ],
)
def test_a_mutant_is_caught_and_named(caught, name, op, count):
    verdict = caught[name]
    assert verdict.verdict == "diverged"
    assert {wrong.op for wrong in verdict.wrong} == {op}
    assert 1 <= len(verdict.wrong) <= count
    first = verdict.wrong[0]
    assert first.source.startswith(str(ROOT / "bench" / "mutants" / "mutant_models.py"))
    stage = next(stage for stage in verdict.stages if stage.name == "shadow")
    assert stage.outcome == "fail"
    assert stage.detail.startswith(f"wrong from the same inputs: {first.instruction} {op}")


def test_the_worst_entry_is_told(caught):
    first = caught["relu_nan_at_zero"].wrong[0]
    assert first.observed != first.observed
    assert first.expected == 0.0
    assert 0 < first.count < first.size
    assert len(first.index) == 4
    assert caught["sub_writes_beside"].wrong[0].detail == "writes beside its output"


@pytest.mark.parametrize("name", ["conv_backward_mirrored_weight", "sub_writes_beside"])
def test_a_reproducer_is_wrong_with_the_library_and_right_without(
    caught, library, name, monkeypatch
):
    from graphcheck.runtime.devices.host import train
    from graphcheck.validate.reproducer import reproduce

    folder = Path(caught[name].wrong[0].reproducer)
    monkeypatch.setenv("GRAPHCHECK_MUTANT", name)
    verdict = reproduce(folder, train)
    assert verdict.verdict == "diverged"
    assert verdict.reason.startswith(f"wrong: {caught[name].wrong[0].op} (instruction ")
    if name == "sub_writes_beside":
        assert "the memory beside an output is " in verdict.reason
    verdict = reproduce(folder, train, kernel_libraries=())
    assert verdict.verdict == "match"
    assert verdict.reason.endswith("gives what is expected, whatever its memory held before")


def test_reproduce_on_the_command_line(caught, library, monkeypatch, capsys):
    from graphcheck.cli.main import run

    folder = caught["conv_backward_mirrored_weight"].wrong[0].reproducer
    monkeypatch.setenv("GRAPHCHECK_MUTANT", "conv_backward_mirrored_weight")
    assert run(["validate", "--reproduce", folder]) == 1
    told = capsys.readouterr().out
    assert "wrong: aten::convolution_backward.out" in told
    monkeypatch.setenv("GRAPHCHECK_MUTANT", "")
    assert run(["validate", "--reproduce", folder, "--kernel-library", str(library)]) == 0
    assert "right: aten::convolution_backward.out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("max_pool_last_of_ties", "take another of equal values in "),
        ("max_pool_backward_equal_split", "shares the gradient of a tie equally among the largest"),
    ],
)
def test_another_rule_for_ties_is_no_error(library, right_pools, name, told):
    verdict = mutant_runs.validate("ties", (library, right_pools), name)
    assert verdict.wrong == ()
    assert verdict.verdict == "match"
    assert verdict.reason.startswith(
        "the loss and 4 gradients agree with eager under the runtime's own choices at ties"
    )
    changes = [note for note in verdict.notes if note.startswith("RULE CHANGE: ")]
    assert any(told in note for note in changes)
    assert any("in another way than eager, which is no error" in note for note in changes)
    assert not verdict.free_compared


def test_a_wrong_gradient_at_a_tie_is_an_error(library, right_pools):
    verdict = mutant_runs.validate("ties", (library, right_pools), "max_pool_backward_mirrored")
    assert verdict.verdict == "diverged"
    assert {w.op for w in verdict.wrong} == {"aten::max_pool2d_with_indices_backward.grad_input"}
    assert not any("RULE CHANGE" in note for note in verdict.notes)


def test_what_is_no_reproducer_is_refused(tmp_path, caught):
    from graphcheck.errors import ModelError
    from graphcheck.runtime.devices.host import train
    from graphcheck.validate.reproducer import FILES, reproduce

    with pytest.raises(ModelError, match=r"is no reproducer: it has no op\.pte"):
        reproduce(tmp_path, train)
    folder = Path(caught["sub_writes_beside"].wrong[0].reproducer)
    for name in FILES:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / FILES[2]).write_text('{"kind": "reproducer", "schema_version": "9"}')
    with pytest.raises(ModelError, match="is a damaged reproducer: it is of another version"):
        reproduce(tmp_path, train)
