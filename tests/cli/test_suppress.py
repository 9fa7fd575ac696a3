"""Suppression by comment and by configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graphcheck.graph.types import Source
from graphcheck.options import CheckOptions
from graphcheck.report.types import UnusedSuppression
from graphcheck.rules.types import Finding, Severity
from graphcheck.suppress import (
    SuppressConfig,
    apply,
    config_of,
    is_code_prefix,
    read_comments,
    read_sources,
)

_NONE = SuppressConfig()


def finding(line: int, code: str = "GC301", built: int = 0, module: str = "pool") -> Finding:
    source = Source(
        module=module,
        file="m.py",
        line=line,
        constructed_file="m.py" if built else "",
        constructed_line=built,
    )
    return Finding(code, Severity.ERROR, "aten.x", "is wrong", source=source)


def lines(text: str) -> list[tuple[int, int, tuple[str, ...], str]]:
    return [(c.first, c.line, c.codes, c.reason) for c in read_comments(text)]


@pytest.mark.parametrize(
    ("comment", "codes", "reason"),
    [
        ("# graphcheck: ignore[GC301]", ("GC301",), ""),
        ("#graphcheck:ignore[gc301]", ("GC301",), ""),
        ("# graphcheck: ignore[GC301, GC2] two of them", ("GC301", "GC2"), "two of them"),
        ("# graphcheck: ignore", (), ""),
        ("# graphcheck: ignore - kernel replaced", (), "kernel replaced"),
        ("# noqa: E501  # graphcheck: ignore[GC3] why  # noqa", ("GC3",), "why"),
    ],
)
def test_forms_of_the_comment(comment: str, codes: tuple[str, ...], reason: str) -> None:
    assert lines(f"x = 1  {comment}\n") == [(1, 1, codes, reason)]


@pytest.mark.parametrize(
    "text",
    [
        'x = "# graphcheck: ignore[GC301]"\n',
        '"""\n# graphcheck: ignore[GC301]\n"""\n',
        "x = 1  # graphcheck: ignored\n",
        "x = 1  # graphcheck: ignore-next\n",
        "x = 1  # ignore[GC301]\n",
    ],
)
def test_what_is_no_comment(text: str) -> None:
    assert lines(text) == []


def test_lines_of_a_statement_of_several_lines() -> None:
    text = (
        "net = Sequential(\n"
        "    Conv(3),\n"
        "    Pool(2),  # graphcheck: ignore[GC301] only this one\n"
        "    Pool(2),\n"
        ")\n"
        "net = Sequential(\n"
        "    Pool(2),\n"
        ")  # graphcheck: ignore[GC301] all of them\n"
    )
    assert lines(text) == [
        (3, 3, ("GC301",), "only this one"),
        (6, 8, ("GC301",), "all of them"),
    ]


def test_broken_source_gives_what_was_read() -> None:
    assert lines("x = 1  # graphcheck: ignore\ny = (\n") == [(1, 1, (), "")]


def test_comment_on_the_construction_line_and_on_the_line_of_the_op() -> None:
    text = "a = 1  # graphcheck: ignore[GC301] replaced\nb = 2\nc = 3  # graphcheck: ignore[GC3]\n"
    given = [finding(9, built=1), finding(3), finding(9, built=2), finding(2)]
    kept, suppressed, unused = apply(given, {"m.py": text}, _NONE)
    assert kept == (given[2], given[3])
    assert [(s.finding.source.line, s.by, s.reason) for s in suppressed] == [
        (9, "comment at m.py:1", "replaced"),
        (3, "comment at m.py:3", ""),
    ]
    assert unused == ()


def test_other_code_or_other_file_is_kept_and_the_comment_is_unused() -> None:
    text = "a = 1  # graphcheck: ignore[GC301]\n"
    given = [finding(1, "GC101"), replace(finding(1), source=Source(file="other.py", line=1))]
    kept, suppressed, unused = apply(given, {"m.py": text}, _NONE)
    assert kept == tuple(given)
    assert suppressed == ()
    assert unused == (UnusedSuppression("m.py", 1, "# graphcheck: ignore[GC301]"),)


@pytest.mark.parametrize("comment", ["# graphcheck: ignore", "# graphcheck: ignore[GC]"])
def test_gc0_cannot_be_suppressed(comment: str) -> None:
    given = finding(1, "GC003")
    config = SuppressConfig(("GC3",), ("GC", "GC0"), (("*", ("GC",)),))
    kept, suppressed, unused = apply([given], {"m.py": f"a = 1  {comment}\n"}, config)
    assert kept == (given,)
    assert suppressed == ()
    assert len(unused) == 1


def test_why_a_comment_is_unused() -> None:
    text = (
        "a = 1  # graphcheck: ignore[GC001]\n"
        "b = 1  # graphcheck: ignore[E501]\n"
        "c = 1  # graphcheck: ignore[]\n"
        "d = 1  # graphcheck: ignore[GC301]\n"
    )
    kept, _, unused = apply([finding(2), finding(3)], {"m.py": text}, _NONE)
    assert len(kept) == 2
    assert [(u.line, u.why) for u in unused] == [
        (1, "GC0 cannot be suppressed"),
        (2, "E501 is not a code such as GC301"),
        (3, "[] is not a code such as GC301"),
        (4, "no finding here"),
    ]


def test_configuration() -> None:
    given = [finding(1), finding(2, "GC101"), finding(3, "GC201", module="encoder.pool1")]
    config = SuppressConfig(ignore=("GC3",), per_module_ignores=(("encoder.*", ("GC2",)),))
    kept, suppressed, _ = apply(given, {}, config)
    assert kept == (given[1],)
    assert [s.by for s in suppressed] == ["ignore GC3", "per-module-ignores encoder.*"]


def test_per_module_ignore_needs_every_module() -> None:
    both = replace(finding(1), modules=("pool1", "conv1"))
    config = SuppressConfig(per_module_ignores=(("pool*", ("GC301",)),))
    assert apply([both], {}, config)[0] == (both,)
    pools = replace(finding(1), modules=("pool1", "pool2"))
    assert apply([pools], {}, config)[0] == ()


def test_select_keeps_the_rest_in_sight() -> None:
    given = [finding(1), finding(2, "GC101"), finding(3, "GC003")]
    kept, suppressed, _ = apply(given, {}, SuppressConfig(select=("GC1", "GC4")))
    assert kept == (given[1], given[2])
    assert [(s.finding.code, s.by) for s in suppressed] == [("GC301", "not in select GC1, GC4")]


def test_suppressed_findings_are_deduplicated_for_each_reason() -> None:
    text = "a = 1  # graphcheck: ignore one\nb = 2  # graphcheck: ignore two\n"
    given = [finding(1), finding(1), finding(2)]
    _, suppressed, _ = apply(given, {"m.py": text}, _NONE)
    assert [(s.finding.count, s.reason) for s in suppressed] == [(2, "one"), (1, "two")]


def test_sources_are_read_once_and_only_python(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("# -*- coding: latin-1 -*-\nx = 'ä'\n", encoding="latin-1")
    other = replace(finding(1), source=Source(file=str(tmp_path / "gone.py"), line=1))
    sources = read_sources([other], str(file), str(tmp_path / "m.pte"), "")
    assert list(sources) == [str(file)]
    assert "ä" in sources[str(file)]


def test_config_of_options() -> None:
    options = CheckOptions("m.py", select=("GC1",), per_module_ignores=(("a", ("GC2",)),))
    assert config_of(options) == SuppressConfig(("GC1",), (), (("a", ("GC2",)),))


@pytest.mark.parametrize(
    ("text", "valid"),
    [("GC", True), ("GC3", True), ("GC301", True), ("GC3011", False), ("E5", False), ("", False)],
)
def test_code_prefix(text: str, valid: bool) -> None:
    assert is_code_prefix(text) is valid
