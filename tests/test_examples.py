"""Every example gets the findings that `examples/expected.yaml` promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
EXPECTED: dict[str, Any] = yaml.safe_load((EXAMPLES / "expected.yaml").read_text())

pytest.importorskip("executorch")


def run(*arguments: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "graphcheck", *arguments, "--output-format", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_every_example_has_an_expectation() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_findings(name: str) -> None:
    code, report = run("check", f"examples/{name}.py")
    found = [
        [finding["code"], finding["subject"], sorted(finding["modules"])]
        for finding in report["findings"]
        if finding["severity"] != "note"
    ]
    assert sorted(found) == sorted(
        [code, subject, sorted(modules)] for code, subject, modules in EXPECTED[name]["findings"]
    )
    assert code == (1 if found else 0)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_verdict(name: str) -> None:
    code, verdict = run("validate", f"examples/{name}.py", "--steps", "8")
    assert verdict["verdict"] == EXPECTED[name]["validate"]
    assert code == (0 if verdict["verdict"] == "match" else 1)
