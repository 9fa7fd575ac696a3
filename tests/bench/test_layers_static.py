"""The confusion table of bench/layers_static.py: what is off its diagonal, and what fails it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

_FILE = Path(__file__).parents[2] / "bench" / "layers_static.py"


@pytest.fixture(scope="module")
def bench() -> Any:
    spec = importlib.util.spec_from_file_location("layers_static", _FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _said(*codes: tuple[str, str]) -> dict[str, Any]:
    return {"findings": [[code, severity, "op", "words"] for code, severity in codes]}


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [
        ([], "right"),
        ([("GC508", "warning")], "right"),
        ([("GC403", "note"), ("GC505", "note")], "right"),
        ([("GC401", "warning"), ("GC508", "warning")], "risk"),
        ([("GC301", "error"), ("GC205", "error")], "refused"),
        ([("GC501", "error"), ("GC102", "error"), ("GC103", "error")], "no out variant"),
        ([("GC501", "error")], "wrong"),
        ([("GC003", "error")], "not exported"),
    ],
)
def test_worst_finding_is_the_verdict(
    bench: Any, codes: list[tuple[str, str]], verdict: str
) -> None:
    assert bench.verdict_of(_said(*codes)["findings"]) == verdict


def test_agreement_passes(bench: Any) -> None:
    results = {"a": _said(), "b": _said(("GC101", "error"))}
    text, agrees = bench.table(
        results, {"a": {"outcome": "right"}}, {"b": {"outcome": "missing kernel"}}
    )
    assert agrees
    assert "2 of 2 agree (1 of them measured before, 1 by `bench/layers_measure.py`)." in text


@pytest.mark.parametrize("codes", [[("GC301", "error")], [("GC401", "warning")]])
def test_false_alarm_fails(bench: Any, codes: list[tuple[str, str]]) -> None:
    text, agrees = bench.table({"a": _said(*codes)}, {"a": {"outcome": "right"}}, {})
    assert not agrees
    assert "### False alarm: measured right, said otherwise (1)" in text


def test_missed_fault_fails_unless_it_is_right_when_measured_again(bench: Any) -> None:
    results, expected = {"a": _said()}, {"a": {"outcome": "wrong grad"}}
    assert not bench.table(results, expected, {})[1]
    assert not bench.table(results, expected, {"a": {"outcome": "wrong loss"}})[1]
    assert bench.table(results, expected, {"a": {"outcome": "right"}})[1]


def test_note_tells_of_imprecision_but_excuses_no_other_fault(bench: Any) -> None:
    measured = {"a": {"outcome": "wrong grad"}}
    text, agrees = bench.table({"a": _said(("GC403", "note"))}, {}, measured)
    assert agrees
    assert "### Measured wrong, told in a note of GC4 (1)" in text
    assert not bench.table({"a": _said(("GC505", "note"))}, {}, measured)[1]
    refused = {"a": {"outcome": "runtime error"}}
    assert not bench.table({"a": _said(("GC403", "note"))}, {}, refused)[1]


def test_random_case_is_judged_by_its_replay_and_never_by_having_run(bench: Any) -> None:
    ran = {"a": {"outcome": "ran (random)"}}
    assert "Not measured: 1." in bench.table({"a": _said()}, ran, {})[0]
    assert not bench.table({"a": _said()}, ran, {"a": {"outcome": "wrong loss"}})[1]
    assert "1 of 1 agree" in bench.table({"a": _said()}, ran, ran)[0]


def test_failed_check_is_not_checked(bench: Any) -> None:
    text, agrees = bench.table({"a": {"failed": "no end"}}, {"a": {"outcome": "right"}}, {})
    assert not agrees
    assert "Not checked: 1." in text
