"""The command that a report tells to run next does mend what it found."""

from __future__ import annotations

import pytest
import torch

import graphcheck
from graphcheck.options import ValidateOptions
from graphcheck.pipeline import _next_command
from graphcheck.report.following import verdict_next_command
from graphcheck.report.in_python import in_python
from graphcheck.rules.types import Finding, Mend, Severity


def _finding(code, severity=Severity.ERROR, module="", **mend):
    mends = (Mend("rewrite", "name", "what", True),) if not mend else (Mend(**mend),)
    return Finding(code, severity, "aten.op", "is wrong", module=module, mends=mends)


_BY_HAND = Mend("edit", "by hand", "no rewrite", False)
_SWAP = Mend("swap", "other", "w", False)
GAP = Finding("GC103", Severity.ERROR, "aten.det", "is not core", mends=(_BY_HAND,))
SWAPPED = Finding("GC101", Severity.ERROR, "aten.x", "is wrong", mends=(_SWAP, _BY_HAND))
_ASKED = "--rewrite addmm_in_float32"
HALF = Finding(
    "GC401",
    Severity.WARNING,
    "aten.addmm",
    "adds up",
    mends=(
        Mend(
            "rewrite", "addmm_in_float32", "w", True, "graphcheck export --rewrite addmm_in_float32"
        ),
        Mend("edit", "mm and add", "w", True),
    ),
)
EXACT = {"name": "n", "description": "d", "exact": True}
FREEZE = "graphcheck export --freeze"


@pytest.mark.parametrize(
    ("findings", "command"),
    [
        ([], "graphcheck validate net.py"),
        ([_finding("GC301", Severity.NOTE)], "graphcheck validate net.py"),
        ([_finding("GC401", kind="edit", **EXACT)], "graphcheck validate net.py"),
        (
            [HALF, _finding("GC101"), HALF],
            "graphcheck export net.py -o net.pte --rewrite addmm_in_float32",
        ),
        ([_finding("GC101")], "graphcheck export net.py -o net.pte"),
        ([_finding("GC205", kind="layout", **EXACT)], "graphcheck export net.py -o net.pte"),
        (
            [
                _finding("GC503", module=m, kind="edit", **EXACT, command=f"{FREEZE} {name}")
                for m, name in (("spare", "spare"), ("forward", "scale"), ("a", "'a b'"))
            ],
            "graphcheck export net.py -o net.pte --freeze spare --freeze scale --freeze 'a b'",
        ),
        ([_finding("GC404"), _finding("GC101")], "graphcheck validate net.py --data FILE.npz"),
        ([_finding("GC101"), GAP], "graphcheck rule GC103"),
        ([GAP], "graphcheck rule GC103"),
        ([SWAPPED], "graphcheck export net.py -o net.pte --swap other"),
        ([SWAPPED, SWAPPED, _finding("GC101")], "graphcheck export net.py -o net.pte --swap other"),
        ([SWAPPED, GAP], "graphcheck rule GC103"),
    ],
)
def test_next_command(findings, command):
    """What export would refuse it is not the next command for."""
    assert _next_command("net.py", findings) == command


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("graphcheck validate Net", "graphcheck.validate(module, inputs)"),
        (
            "graphcheck export Net -o Net.pte",
            "graphcheck.export(module, inputs, 'Net.pte')",
        ),
        (
            "graphcheck export Net -o Net.pte --freeze spare --freeze 'a b' --swap other",
            "graphcheck.export(module, inputs, 'Net.pte', options=ExportOptions('Net', "
            "freeze=('spare', 'a b'), swaps=('other',)))",
        ),
        (
            "graphcheck export Net -o Net.pte --rewrite addmm_in_float32",
            "graphcheck.export(module, inputs, 'Net.pte', options=ExportOptions('Net', "
            "rewrite=('addmm_in_float32',)))",
        ),
        ("graphcheck rule GC103", "graphcheck rule GC103"),
        ("", ""),
    ],
)
def test_a_live_module_is_told_what_to_call(command, call):
    assert in_python(command) == call


def test_a_live_module_is_told_the_loss_and_the_targets_that_were_given():
    named = in_python("graphcheck validate Net", "cross_entropy", torch.zeros(1))
    assert named == ("graphcheck.validate(module, inputs, loss='cross_entropy', targets=targets)")
    assert in_python("graphcheck validate Net", loss=torch.nn.MSELoss()) == (
        "graphcheck.validate(module, inputs, loss=loss)"
    )
    assert in_python("graphcheck export Net -o Net.pte --swap other", "mse", 1) == (
        "graphcheck.export(module, inputs, 'Net.pte', loss='mse', targets=targets, "
        "options=ExportOptions('Net', swaps=('other',)))"
    )
    assert in_python("graphcheck rule GC103", "mse", 1) == "graphcheck rule GC103"


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("graphcheck check Net", "graphcheck.check(module, inputs, loss='mse', targets=targets)"),
        (
            "graphcheck validate Net --shadow",
            "graphcheck.validate(module, inputs, loss='mse', targets=targets, "
            "options=ValidateOptions('Net', shadow=True))",
        ),
        (
            "graphcheck validate Net --timeout 1200 --steps 20",
            "graphcheck.validate(module, inputs, loss='mse', targets=targets, "
            "options=ValidateOptions('Net', timeout=1200, steps=20))",
        ),
        (
            "graphcheck validate Net --data FILE.npz",
            "graphcheck.validate(module, other_inputs, loss='mse', targets=other_targets)",
        ),
    ],
)
def test_the_options_of_a_command_become_those_of_the_call(command, call):
    assert in_python(command, "mse", 1) == call


def test_a_report_and_a_verdict_of_a_live_module_carry_loss_and_targets():
    module, inputs, targets = torch.nn.Linear(3, 2), torch.ones(4, 3), torch.tensor([0, 1, 1, 0])
    report = graphcheck.check(module, inputs, loss="cross_entropy", targets=targets)
    told = "graphcheck.validate(module, inputs, loss='cross_entropy', targets=targets)"
    assert report.next_command == told
    assert str(report).endswith(f"Next: {told}")

    rate = ValidateOptions("Linear", steps=8, learning_rate=1e30)
    loss = torch.nn.MSELoss()
    verdict = graphcheck.validate(module, inputs, loss=loss, targets=torch.ones(4, 2), options=rate)
    assert verdict.verdict == "not run"
    told = (
        "graphcheck.validate(module, inputs, loss=loss, targets=targets, "
        "options=ValidateOptions('Linear', learning_rate=1e+29))"
    )
    assert verdict.next_command == told
    assert verdict_next_command(verdict, "--again") == told


@pytest.mark.parametrize(
    ("command", "repeated"),
    [
        ("graphcheck validate net.py", "graphcheck validate net.py --target X"),
        ("graphcheck export net.py -o net.pte", "graphcheck export net.py --target X -o net.pte"),
        ("graphcheck advisory show GCA-2026-0001", "graphcheck advisory show GCA-2026-0001"),
        ("graphcheck check net.pyc", "graphcheck check net.pyc"),
    ],
)
def test_options_of_the_target_are_repeated(command, repeated):
    from graphcheck.report import following

    assert following.repeated(command, "net.py", "--target X") == repeated
    assert following.repeated(command, "net.py", "") == command


def test_a_rewrite_that_is_made_only_when_asked_is_told_with_its_option():
    """The command of every mend of an advisory makes the rewrite that it names, and no other."""
    from graphcheck.advisory.load import all_advisories
    from graphcheck.rewrite.interface import all_rewrites
    from graphcheck.rewrite.plan import _MENDED, Choice

    asked = 0
    for advisory in all_advisories():
        for mend in advisory.mends:
            if mend["kind"] != "rewrite" or mend["name"] == "buffers":
                continue
            verb, _, option = mend["command"].partition(" --rewrite ")
            assert verb == "graphcheck export", advisory.id
            if advisory.rule.startswith(_MENDED):
                assert not option, advisory.id
                continue
            choice = Choice(always=(option,))
            demanded = [rewrite.name for rewrite in all_rewrites() if choice.demands(rewrite)]
            assert demanded == [mend["name"]], advisory.id
            asked += 1
    assert asked == 9


def test_a_program_is_exported_again_and_an_export_reminds_with_the_rewrite_that_is_needed():
    from graphcheck.artefacts.check import _next
    from graphcheck.export.run import _remarks

    assert _next("net.pte", [HALF], "") == (
        "graphcheck export MODEL.py -o net.pte --rewrite addmm_in_float32"
    )
    (remark,) = _remarks((), [HALF])
    assert (
        remark
        == "GC401: aten.addmm (forward): adds up (export with --rewrite addmm_in_float32 mends it)"
    )


HALF_NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 4)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.a(x).float(), y)


def get_model():
    return Net().to(torch.bfloat16)


def get_example_inputs():
    return torch.randn(2, 16).to(torch.bfloat16), torch.randint(0, 4, (2,))
"""


def test_the_command_that_is_told_mends_half_accumulation(tmp_path, monkeypatch, capsys):
    from graphcheck.cli.main import run as main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "half.py").write_text(HALF_NET)
    told = "graphcheck export half.py -o half.pte --rewrite addmm_in_float32"
    main(["check", "half.py"])
    out = capsys.readouterr().out
    assert "half.py:11:44: GC401 [*]" in out
    assert "        graphcheck export --rewrite addmm_in_float32\n" in out
    assert f"Next: {told}\n" in out

    main([*told.split()[1:], "--no-validate"])
    assert "rewrite addmm_in_float32 (x1, a): asked for with --rewrite" in capsys.readouterr().out
    main(["check", "half.pte"])
    assert "GC401" not in capsys.readouterr().out
