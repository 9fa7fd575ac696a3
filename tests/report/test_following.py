"""The command that a verdict names next is one that helps."""

from __future__ import annotations

import pytest

from graphcheck.report.following import program_name, verdict_next_command
from graphcheck.validate.device_result import DeviceResult
from graphcheck.validate.types import Stage, StaleOutput, Verdict

NAN = float("nan")
HOST = DeviceResult("host", "x86_64", "match", "")
BOARD = DeviceResult("ssh:pi@board", "", "not run", "no route to host", lost=True)
LOWER = "to_edge refuses {}: not core ATen"


def verdict(word: str, **more) -> Verdict:
    return Verdict("net.py", word, "why", **more)


def lowered(detail: str) -> Verdict:
    return verdict("not run", stages=(Stage("export", "pass"), Stage("lower", "fail", detail)))


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (verdict("match"), ""),
        (verdict("match", devices=(HOST,)), ""),
        (verdict("match", devices=(HOST, BOARD)), ""),
        (verdict("match", devices=(HOST, BOARD), required=True), "graphcheck device list"),
        (verdict("not run", devices=(BOARD,)), "graphcheck validate net.py --on host"),
        (
            verdict("not run", devices=(BOARD,), required=True),
            "graphcheck validate net.py --on host",
        ),
        (
            verdict("not run", devices=(DeviceResult("host", "", "not run", "full", lost=True),)),
            "graphcheck doctor",
        ),
        (verdict("not run", losses=(NAN, NAN)), "graphcheck validate net.py --data FILE.npz"),
        (
            verdict(
                "not run", losses=(1.0, 9e9, NAN), optimizer="sgd, learning rate 0.05, 3 steps"
            ),
            "graphcheck validate net.py --learning-rate 0.005",
        ),
        (verdict("diverged", losses=(1.0, 2.0)), "graphcheck validate net.py --shadow"),
        (verdict("drift", losses=(1.0, 2.0)), "graphcheck validate net.py --shadow"),
        (verdict("diverged", shadow_checked=True), "graphcheck check net.py"),
        (
            verdict("diverged", stale=(StaleOutput(3, "aten::x.out", "m", "net.py:3"),)),
            "graphcheck check net.py",
        ),
        (verdict("not run"), "graphcheck check net.py"),
        (
            lowered(LOWER.format("aten._native_batch_norm_legit_functional (n)")),
            "graphcheck export net.py -o net.pte",
        ),
        # What export could not mend either is not promised.
        (lowered(LOWER.format("aten._linalg_det (forward)")), "graphcheck check net.py"),
        (lowered("to_executorch failed: out of memory"), "graphcheck check net.py"),
        (verdict("not run", reproducer=True), ""),
    ],
)
def test_what_helps(given: Verdict, command: str) -> None:
    assert verdict_next_command(given) == command


def test_the_options_of_the_target_are_repeated() -> None:
    assert verdict_next_command(verdict("not run", devices=(BOARD,)), "--target X") == (
        "graphcheck validate net.py --target X --on host"
    )


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("pkg/net.py", "net.pte"),
        ("net.py:Net", "Net.pte"),
        ("torchvision:resnet18", "resnet18.pte"),
        ("net.pt2", "net.pte"),
        ("pkg.mod:factory", "factory.pte"),
    ],
)
def test_names_of_programs(target: str, name: str) -> None:
    assert program_name(target) == name
