"""`export --require`, and `export --shadow`: nothing is written that is not proven as asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import graphcheck.api
from graphcheck.cli.main import run
from graphcheck.export.run import export_workload
from graphcheck.validate import run as validation
from graphcheck.validate.device_result import DeviceResult
from graphcheck.validate.types import Stage, Verdict, WrongInstruction
from graphcheck.workload.types import Workload

HERE = DeviceResult(name="host", machine="x86_64", verdict="match", reason="agrees")
GONE = DeviceResult(
    name="ssh:pi@board",
    machine="",
    verdict="not run",
    reason="no route to host (Plug it in)",
    lost=True,
)
MATCH = Verdict("net.py", "match", "agrees, on host", devices=(HERE, GONE))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x).square().mean()


@pytest.fixture(scope="module")
def proven():
    """What lowering gives is the same each time; only the proof differs."""
    from graphcheck.runtime.lower import lower

    workload = Workload(Net(), (torch.ones(1, 3),), target="net.py")
    return workload, lower(workload)


@pytest.fixture
def exported(proven, monkeypatch, tmp_path, capsys):
    """`exported(verdict, *words)`: exit code, stdout, stderr and whether a program was written."""
    workload, lowered = proven
    (tmp_path / "net.py").write_text("")
    asked = []

    def call(verdict, *words):
        def validate(workload, options, *, lowered):
            asked.append(options)
            return replace(verdict, required=options.require)

        monkeypatch.setattr(validation, "validate_workload", validate)
        monkeypatch.setattr("graphcheck.export.run.lower", lambda *_, **__: lowered)
        monkeypatch.setattr(
            "graphcheck.export.run._recorded", lambda card, *_: replace(card, reference=())
        )
        monkeypatch.setattr(
            graphcheck.api, "export_target", lambda options, _: export_workload(workload, options)
        )
        program = tmp_path / "net.pte"
        program.unlink(missing_ok=True)
        code = run(["export", str(tmp_path / "net.py"), "-o", str(program), *words])
        out, err = capsys.readouterr()
        return int(code), out, err, program.is_file(), asked[-1]

    return call


def test_a_device_that_is_gone_is_forgiven(exported):
    code, _, _, written, _ = exported(MATCH, "--on", "host,ssh:pi@board")
    assert (code, written) == (0, True)


def test_a_required_one_is_not(exported):
    code, out, err, written, asked = exported(MATCH, "--on", "host,ssh:pi@board", "--require")
    assert (code, out, written, asked.require) == (4, "", False, True)
    assert err.splitlines()[-2:] == [
        "graphcheck: error: nothing was written: not proven on ssh:pi@board: no route to host "
        "(Plug it in)",
        "next: without --require the other devices count",
    ]


@pytest.mark.parametrize("words", [(), ("--require",)])
def test_none_that_is_left_proves_nothing(exported, words):
    verdict = Verdict("net.py", "not run", GONE.reason, devices=(GONE,))
    code, _, err, written, _ = exported(verdict, "--on", "ssh:pi@board", *words)
    assert (code, written) == (4, False)
    assert "next: name a device that is there with --on" in err


def test_a_required_one_goes_before_what_diverged(exported):
    verdict = replace(MATCH, verdict="diverged", reason="the loss")
    words = ("--on", "host,ssh:pi@board", "--require")
    assert exported(verdict, *words)[0] == 4
    assert exported(verdict, *words[:2])[0] == 1


def test_shadow_execution_is_part_of_the_proof(exported, tmp_path):
    stage = Stage("shadow", "pass", "30 instructions right", 1.0)
    right = Verdict("net.py", "match", "agrees", stages=(stage,), shadow_checked=True)
    code, out, _, written, asked = exported(right, "--reproducers", str(tmp_path / "wrong"))
    assert (code, written) == (0, True)
    assert (asked.shadow, asked.reproducers) == (True, str(tmp_path / "wrong"))
    assert "shadow execution: 30 instructions right\n" in out
    wrong = WrongInstruction(
        instruction=7, op="aten::mm.out", module="fc", step=0, error=0.5, tolerance=1e-6,
        output=0, index=(1, 0), observed=2.0, expected=1.0, count=1, size=4,
    )  # fmt: skip
    bad = replace(right, verdict="diverged", reason="instruction 7", wrong=(wrong,))
    code, out, err, written, asked = exported(bad, "--shadow")
    assert (code, written, asked.shadow, asked.reproducers) == (1, False, True, "")
    assert "instruction 7: aten::mm.out at fc, step 0, error 0.5, tolerance 1e-06\n" in out
    assert "largest error at [1, 0] of output 0: 2 in the runtime, 1 in eager; 1 of 4" in out
    assert "net.py: nothing was written: the parity check on this machine says diverged" in err
    assert not exported(right)[4].shadow
