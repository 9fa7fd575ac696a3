"""Every format of every sample, compared with files a reader can look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from report_samples import REPORTS, ROOT, VERDICTS

import graphcheck.report
from graphcheck.report.interface import Look, all_formats, find_format

_SOURCES = ROOT / "sources"
_LOOKS = {
    "wide": Look(root=_SOURCES),
    "80": Look(width=80, root=_SOURCES),
    "verbose": Look(width=100, verbosity=1, root=_SOURCES),
    "quiet": Look(verbosity=-1, root=_SOURCES),
    "ascii": Look(unicode=False, root=_SOURCES),
    "color": Look(width=80, color=True, root=_SOURCES),
}
_NEUTRAL = "/checkout"


def _neutral(text: str) -> str:
    return text.replace(str(_SOURCES), _NEUTRAL)


@pytest.mark.parametrize("look", sorted(_LOOKS))
@pytest.mark.parametrize("name", sorted(REPORTS))
def test_report_as_text(name: str, look: str, golden: Callable[[str, str], None]) -> None:
    text = find_format("text").report(REPORTS[name], _LOOKS[look])
    golden(f"report-{name}.{look}.txt", _neutral(text))


@pytest.mark.parametrize("look", sorted(_LOOKS))
@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_verdict_as_text(name: str, look: str, golden: Callable[[str, str], None]) -> None:
    text = find_format("text").verdict(VERDICTS[name], _LOOKS[look])
    golden(f"verdict-{name}.{look}.txt", _neutral(text))


@pytest.mark.parametrize("name", sorted(REPORTS))
@pytest.mark.parametrize("form", ["json", "github"])
def test_report(name: str, form: str, golden: Callable[[str, str], None]) -> None:
    text = find_format(form).report(REPORTS[name], _LOOKS["wide"])
    golden(f"report-{name}.{form}", _neutral(text))


@pytest.mark.parametrize("name", sorted(VERDICTS))
@pytest.mark.parametrize("form", ["json", "github"])
def test_verdict(name: str, form: str, golden: Callable[[str, str], None]) -> None:
    text = find_format(form).verdict(VERDICTS[name], _LOOKS["wide"])
    golden(f"verdict-{name}.{form}", _neutral(text))


def _schema(name: str) -> Any:
    folder = Path(graphcheck.report.__file__).parent / "schema"
    schema = json.loads((folder / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_json_report_has_the_committed_schema(name: str) -> None:
    body = json.loads(find_format("json").report(REPORTS[name], Look()))
    jsonschema.validate(body, _schema("report-1.json"))
    assert [f["severity"] for f in body["findings"]] == sorted(
        (f["severity"] for f in body["findings"]), key=["error", "warning", "note"].index
    )


@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_json_verdict_has_the_committed_schema(name: str) -> None:
    body = json.loads(find_format("json").verdict(VERDICTS[name], Look()))
    jsonschema.validate(body, _schema("verdict-1.json"))


def test_json_keeps_what_is_not_finite() -> None:
    body = json.loads(find_format("json").verdict(VERDICTS["diverged"], Look()))
    assert body["losses"][3:5] == ["Infinity", "NaN"]
    assert body["worst_gradient_errors"]["conv1.weight"] == "NaN"


@pytest.mark.parametrize("broken", ["findings", "schema_version", "next_command"])
def test_schema_refuses_a_report_that_lacks_a_part(broken: str) -> None:
    body = json.loads(find_format("json").report(REPORTS["clean"], Look()))
    del body[broken]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, _schema("report-1.json"))


def test_schema_refuses_a_part_that_it_does_not_know() -> None:
    body = json.loads(find_format("json").verdict(VERDICTS["match"], Look()))
    body["mood"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, _schema("verdict-1.json"))


@pytest.mark.parametrize("form", [entry.name for entry in all_formats()])
def test_order_of_findings_does_not_matter(form: str) -> None:
    report = REPORTS["findings"]
    turned = replace(report, findings=report.findings[::-1])
    assert find_format(form).report(report, Look()) == find_format(form).report(turned, Look())


@pytest.mark.parametrize("form", ["text", "github"])
def test_last_line_is_summary_and_next_command(form: str) -> None:
    for report in REPORTS.values():
        last = find_format(form).report(report, Look()).splitlines()[-1]
        assert " Next: graphcheck " in last


@pytest.mark.parametrize("form", ["text", "github"])
def test_a_problem_never_sounds_like_success(form: str) -> None:
    entry = find_format(form)
    texts = [entry.report(REPORTS[name], Look()) for name in ("findings", "failed")]
    texts += [entry.verdict(VERDICTS[name], Look()) for name in ("diverged", "not-run")]
    for text in texts:
        for word in ("success", "passed", " ok", "No problems", "match:"):
            assert word not in text


def test_colours_are_the_only_difference() -> None:
    import re

    for report in REPORTS.values():
        plain = find_format("text").report(report, _LOOKS["80"])
        colored = find_format("text").report(report, _LOOKS["color"])
        assert "\x1b[" in colored
        assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_no_line_is_wider_than_the_terminal() -> None:
    for report in REPORTS.values():
        for line in find_format("text").report(report, _LOOKS["80"]).splitlines():
            assert len(line) <= 80, line
    for verdict in VERDICTS.values():
        for line in find_format("text").verdict(verdict, _LOOKS["80"]).splitlines():
            assert len(line) <= 80 or len(line.split()) == 1 or str(_SOURCES) in line, line
