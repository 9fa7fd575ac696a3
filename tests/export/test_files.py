"""The files of an export are written as one set, and what the command says of it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from graphcheck.cli.verbs.export import tell
from graphcheck.errors import UsageError
from graphcheck.export.output import checked_output
from graphcheck.export.types import (
    Card,
    ExportOptions,
    ExportResult,
    Inference,
    InputFact,
    RandomInput,
)
from graphcheck.files import write_set


def test_all_or_none(tmp_path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").mkdir()
    with pytest.raises(OSError):
        write_set({tmp_path / "a": "new", tmp_path / "c": b"new", tmp_path / "b": "new"})
    assert (tmp_path / "a").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    write_set({tmp_path / "a": "new", tmp_path / "c": b"new"})
    assert (tmp_path / "a").read_text() == (tmp_path / "c").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("/proc/x.pte", "No such file or directory"),
        ("/dev/null", "Not a regular file"),
        ("x" * 252 + ".pte", "File name too long"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_any_work(
    tmp_path, monkeypatch, place, why
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        checked_output(ExportOptions("x.py", output=place))
    assert refused.value.message == f"{place} cannot be written: {why}."
    assert refused.value.hint == "Name another file with -o."
    assert list(tmp_path.iterdir()) == []


def test_the_files_beside_the_program_are_looked_at_too(tmp_path) -> None:
    (tmp_path / "x.card.json").mkdir()
    with pytest.raises(UsageError) as refused:
        checked_output(ExportOptions("x.py", output=str(tmp_path / "x.pte")))
    assert refused.value.message == f"{tmp_path}/x.card.json is a folder."
    (tmp_path / "x.card.json").rmdir()
    (tmp_path / "x.pte").write_text("old")
    assert checked_output(ExportOptions("x.py", output=str(tmp_path / "x.pte"))).is_file()
    assert (tmp_path / "x.pte").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.pte"]


def test_a_device_is_not_replaced_by_a_file(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="Not a regular file"):
        write_set({pipe: "new"})
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def card(**more) -> Card:
    return Card(
        program="x.pte",
        program_bytes=1,
        program_sha256="",
        target="x.py",
        versions={},
        opset="",
        kernels=("aten::add.out",),
        arena_bytes=2_000_000,
        inputs=(),
        parameters=("a",),
        **more,
    )


def test_words(capsys) -> None:
    inference = Inference(
        method="predict",
        inputs=(InputFact("x", "float32", (4, 6)),),
        outputs=1,
        shared_memory=2,
        shared_bytes=64,
        arena_bytes=32,
        steps=2,
        error_before=1e-7,
        error_after=2e-7,
        moved=0.5,
    )
    drawn = RandomInput("draw_0", "float32", (4, 5), "uniform", "drop")
    result = ExportResult(
        "x.py",
        ("x.pte", "x.ptd", "x.card.json"),
        card=card(random_inputs=(drawn,), inference=inference),
    )
    tell(result)
    assert capsys.readouterr().out == (
        "random input draw_0: float32[4,5], uniform, for drop\n"
        "inference: method predict(x float32[4,6]) in eval mode shares planned memory 2 with "
        "forward; off by 1.0e-07 of its largest entry before training and 2.0e-07 after 2 steps, "
        "which moved it by 5.0e-01\n"
        "parity with eager over 0 steps: NOT CHECKED (--no-validate)\n"
        "1 kernel, 1 trainable parameter, arena 2 MB\n"
        "wrote x.pte, x.ptd and x.card.json\n"
    )


@pytest.mark.parametrize(
    ("size", "told"), [(0, "0 bytes"), (640, "640 bytes"), (1840, "1.84 kB"), (52_000_000, "52 MB")]
)
def test_the_arena_of_a_small_program_has_its_size(capsys, size, told) -> None:
    tell(ExportResult("x.py", ("x.pte", "x.card.json"), card=replace(card(), arena_bytes=size)))
    assert f"1 trainable parameter, arena {told}\n" in capsys.readouterr().out


def test_an_inference_method_that_was_not_run_is_not_checked(capsys) -> None:
    facts = Inference("predict", (), 1, 2, 64, 32)
    tell(ExportResult("x.py", ("x.pte", "x.card.json"), card=card(inference=facts)))
    assert (
        "inference: method predict() in eval mode shares planned memory 2 with forward; "
        "NOT CHECKED (--no-validate)\n"
    ) in capsys.readouterr().out
