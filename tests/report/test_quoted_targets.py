"""The next command can be copied into a shell, whatever the target's name is."""

from __future__ import annotations

import shlex

import pytest

from graphcheck.report.following import program_name, repeated, verdict_next_command
from graphcheck.report.types import Report
from graphcheck.report.words import next_command
from graphcheck.validate.types import Verdict

_NAMES = ("my net.py", "модель ünï.py", "a'b.py", "$HOME.py", "net.py:Model(3)")


@pytest.mark.parametrize("target", _NAMES)
def test_one_word_stays_one_word(target: str) -> None:
    again = "--input 'float32[2,3]'"
    report = Report(target=target, findings=())
    for command in (next_command(report, again), _of_verdict(target, again)):
        words = shlex.split(command)
        assert words[:3] == ["graphcheck", "validate", target]
        assert words[3:5] == ["--input", "float32[2,3]"]
    assert len(shlex.split(program_name(target))) == 1


def _of_verdict(target: str, again: str) -> str:
    verdict = Verdict(target=target, verdict="diverged", reason="", losses=(1.0,))
    return verdict_next_command(verdict, again)


def test_plain_names_are_told_as_they_are() -> None:
    assert next_command(Report(target="pkg/net.py:Net", findings=())) == (
        "graphcheck validate pkg/net.py:Net"
    )
    assert program_name("torchvision:resnet18") == "resnet18.pte"
    assert (
        repeated("graphcheck check net.py --x", "net.py", "--y")
        == "graphcheck check net.py --y --x"
    )
