"""Sparkline, escaping, places, order and words."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from graphcheck.graph.types import Source
from graphcheck.report.ansi import wrap
from graphcheck.report.formats.github import command
from graphcheck.report.order import ordered
from graphcheck.report.place import column_of, inside, place_of, short_path, shorten
from graphcheck.report.sparkline import sparkline
from graphcheck.report.types import NotChecked, Report
from graphcheck.report.words import counted, headline, next_command, report_summary, some_of
from graphcheck.rules.types import Finding, Mend, Severity

_FINDING = Finding("GC101", Severity.ERROR, "aten.avg_pool2d_backward", "has no portable kernel")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([], ""),
        ([1.0], "▁"),
        ([2.0, 2.0], "▁▁"),
        ([0.0, 7.0, 3.5], "▁█▅"),
        ([7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0], "█▇▆▅▄▃▂▁"),
        ([1.0, math.nan, math.inf, -math.inf], "▁N^v"),
        ([math.nan], "N"),
        ([1.0, 1e7], "▁█"),
        ([1.0, 1e3, 1e7], "▁▄█"),
        ([-1.0, 0.0, 1e7], "▁▁█"),
    ],
)
def test_sparkline(values: list[float], shown: str) -> None:
    assert sparkline(values) == shown


def test_sparkline_without_unicode() -> None:
    assert sparkline([0.0, 7.0, math.nan], unicode=False) == "_#N"


def test_sparkline_shows_one_nan_of_many_values() -> None:
    values = [float(i) for i in range(1000)]
    values[500] = math.nan
    line = sparkline(values, width=20)
    assert len(line) == 20
    assert line.count("N") == 1


def test_sparklines_can_share_a_scale() -> None:
    assert sparkline([1.0, 2.0], (1.0, 8.0)) == "▁▂"


def test_workflow_command_is_escaped() -> None:
    assert command("error", "50% of\nit: a,b", file="a,b:c%.py", line=3, col=0, title="") == (
        "::error file=a%2Cb%3Ac%25.py,line=3::50%25 of%0Ait: a,b"
    )
    assert command("notice", "") == "::notice::"


def test_column_is_the_call_of_the_module(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("    x = self.bn1(self.bn(x))\n    y = x + 1\n\n")
    assert column_of(Source(module="net.bn", file=str(file), line=1)) == 18
    assert column_of(Source(module="net.bn1", file=str(file), line=1)) == 9
    assert column_of(Source(module="forward", file=str(file), line=2)) == 5
    assert column_of(Source(module="forward", file=str(file), line=3)) == 0
    assert column_of(Source(module="forward", file=str(file), line=99)) == 0
    assert column_of(Source(module="forward", file=str(tmp_path / "none.py"), line=1)) == 0


def test_places(tmp_path: Path) -> None:
    file = str(tmp_path / "a" / "m.py")
    assert inside(file, tmp_path) == "a/m.py"
    assert inside(file, tmp_path / "b") == ""
    assert short_path(file, tmp_path / "b") == file
    assert short_path("/v/lib/site-packages/torchvision/ops/misc.py", Path("/v")) == (
        "torchvision/ops/misc.py"
    )
    assert place_of(_FINDING, "torchvision:resnet18", tmp_path) == "torchvision:resnet18"
    here = replace(_FINDING, source=Source(file=file, line=7))
    assert place_of(here, "m.py", tmp_path) == "a/m.py:7"


def test_paths_in_a_sentence_are_shortened(tmp_path: Path) -> None:
    assert shorten(f"at pool ({tmp_path}/a/m.py:3) of {tmp_path}/b.py", tmp_path) == (
        "at pool (a/m.py:3) of b.py"
    )
    assert shorten("at /other/m.py:3", tmp_path) == "at /other/m.py:3"


def test_headline() -> None:
    assert headline(_FINDING) == "GC101 aten.avg_pool2d_backward has no portable kernel"
    mended = replace(
        _FINDING, mends=(Mend("rewrite", "x", "y", exact=True),), count=12, module="encoder.*.pool"
    )
    assert headline(mended) == (
        "GC101 [*] aten.avg_pool2d_backward has no portable kernel (x12, encoder.*.pool)"
    )
    swapped = replace(_FINDING, mends=(Mend("swap", "x", "y", exact=False),))
    assert headline(swapped) == headline(_FINDING)
    loading = replace(_FINDING, code="GC001", subject="cannot import", message="m.py: no module x")
    assert headline(loading) == "GC001 cannot import: m.py: no module x"


def test_order_puts_silently_wrong_before_missing() -> None:
    def make(code: str, severity: Severity = Severity.ERROR, line: int = 1) -> Finding:
        return replace(_FINDING, code=code, severity=severity, source=Source(file="m", line=line))

    given = [
        make("GC101", Severity.NOTE),
        make("GC101", line=10),
        make("GC101", line=9),
        make("GC601", Severity.WARNING),
        make("GC301"),
        make("GC001"),
        make("GC501"),
        make("GC201"),
    ]
    assert [(f.code, f.source.line, f.severity.value) for f in ordered(given)] == [
        ("GC001", 1, "error"),
        ("GC301", 1, "error"),
        ("GC101", 9, "error"),
        ("GC101", 10, "error"),
        ("GC201", 1, "error"),
        ("GC501", 1, "error"),
        ("GC601", 1, "warning"),
        ("GC101", 1, "note"),
    ]


def test_words() -> None:
    assert counted(1, "error") == "1 error"
    assert counted(0, "error") == "0 errors"
    assert some_of([], 1) == ""
    assert some_of(["a"], 1) == "a"
    assert some_of(["a", "b"], 1) == "a and b"
    assert some_of(["a", "b", "c"], 1) == "a and 2 more"
    assert some_of(["a", "b", "c"], 3) == "a, b and c"


def test_summary_of_a_clean_report_tells_what_was_not_checked() -> None:
    report = Report("m.py", not_checked=(NotChecked("x", "y"),), ops=3, backward_ops=1)
    assert report_summary(report) == (
        "No problems in 3 operator calls (1 of them backward); 1 NOT CHECKED."
    )
    assert next_command(report) == "graphcheck validate m.py"


def test_next_command_explains_the_worst_finding() -> None:
    note = replace(_FINDING, severity=Severity.NOTE, code="GC601")
    report = Report("m.py", findings=(note, _FINDING))
    assert next_command(report) == "graphcheck rule GC101"
    told = replace(_FINDING, advisory="GCA-2026-0001")
    assert next_command(Report("m.py", findings=(told,))) == (
        "graphcheck advisory show GCA-2026-0001"
    )


def test_text_of_a_model_cannot_play_with_the_terminal() -> None:
    assert wrap("a\x1b[2Jb\nc\x07", None) == "a[2Jb c"


def test_a_quiet_verdict_tells_what_was_not_checked() -> None:
    from graphcheck.report.interface import Look
    from graphcheck.report.text_verdict import verdict_text
    from graphcheck.validate.types import Verdict

    note = "executorch 1.3.1 was NOT CHECKED: the steps ran in the installed runtime"
    verdict = Verdict("model.py", "match", "both agree", notes=("a guess", note))
    said = verdict_text(verdict, Look(verbosity=-1))
    assert said == "model.py: match: both agree. executorch 1.3.1 was NOT CHECKED.\n"
    said = verdict_text(replace(verdict, notes=("a guess",)), Look(verbosity=-1))
    assert said == "model.py: match: both agree.\n"
