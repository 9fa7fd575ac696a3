"""Each small model gets the findings of `tests/models/expected.yaml`, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

MODELS = Path(__file__).parent / "models"
EXPECTED: dict[str, Any] = yaml.safe_load((MODELS / "expected.yaml").read_text())

pytest.importorskip("executorch")


def test_every_model_has_an_expectation() -> None:
    assert {path.stem for path in MODELS.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_findings(name: str) -> None:
    from graphcheck.options import CheckOptions
    from graphcheck.pipeline import check_workload
    from graphcheck.workload.load import load
    from graphcheck.workload.request import WorkloadRequest

    target = str(MODELS / f"{name}.py")
    report = check_workload(load(WorkloadRequest(target)), CheckOptions(target))
    found = {
        (finding.family, finding.subject, module)
        for finding in report.findings
        if finding.severity != "note"
        for module in finding.modules
    }
    # The expectations say "mutated buffer" of one and "mutated buffers" of several.
    wanted = {
        (family, "mutated buffers" if subject == "mutated buffer" else subject, module)
        for family, subject, module in EXPECTED[name]["findings"]
    }
    assert found == wanted
    assert not report.failed
