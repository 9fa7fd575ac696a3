"""The command that a report tells to run next does mend what it found."""

from __future__ import annotations

import pytest

from graphcheck.pipeline import _next_command
from graphcheck.rules.types import Finding, Mend, Severity


def _finding(code, severity=Severity.ERROR, module="", **mend):
    mends = (Mend("rewrite", "name", "what", True),) if not mend else (Mend(**mend),)
    return Finding(code, severity, "aten.op", "is wrong", module=module, mends=mends)


_BY_HAND = Mend("edit", "by hand", "no rewrite", False)
_SWAP = Mend("swap", "other", "w", False)
GAP = Finding("GC103", Severity.ERROR, "aten.det", "is not core", mends=(_BY_HAND,))
SWAPPED = Finding("GC101", Severity.ERROR, "aten.x", "is wrong", mends=(_SWAP, _BY_HAND))
EXACT = {"name": "n", "description": "d", "exact": True}
FREEZE = "graphcheck export --freeze"


@pytest.mark.parametrize(
    ("findings", "command"),
    [
        ([], "graphcheck validate net.py"),
        ([_finding("GC301", Severity.NOTE)], "graphcheck validate net.py"),
        ([_finding("GC401", kind="edit", **EXACT)], "graphcheck validate net.py"),
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
        ("graphcheck rule GC103", "graphcheck rule GC103"),
        ("", ""),
    ],
)
def test_a_live_module_is_told_what_to_call(command, call):
    from graphcheck.api import _in_python

    assert _in_python(command) == call


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
