"""JSON with a versioned schema: `graphcheck/report/schema/report-1.json` and `verdict-1.json`.

Numbers that are not finite are the strings "NaN", "Infinity" and "-Infinity", which JSON lacks.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import msgspec

from graphcheck.report.following import verdict_next_command
from graphcheck.report.interface import Format, Look
from graphcheck.report.order import count_by_severity, ordered
from graphcheck.report.types import Report
from graphcheck.report.words import next_command

if TYPE_CHECKING:
    from graphcheck.validate.types import Verdict

__all__ = ["FORMAT", "report_json", "verdict_json"]


def report_json(report: Report, look: Look) -> str:
    """Everything the report holds, with counts, whatever the verbosity."""
    body = msgspec.to_builtins(report)
    body["findings"] = msgspec.to_builtins(ordered(report.findings))
    body["counts"] = {
        **count_by_severity(report.findings),
        "suppressed": len(report.suppressed),
        "not_checked": len(report.not_checked),
    }
    body["next_command"] = next_command(report, look.again)
    if report.artefact is None:
        del body["artefact"]
    return _dump("report", body)


def verdict_json(verdict: Verdict, look: Look) -> str:
    """Everything the verdict holds."""
    body = msgspec.to_builtins(verdict)
    body["next_command"] = verdict_next_command(verdict, look.again)
    return _dump("verdict", body)


def _dump(kind: str, body: dict[str, Any]) -> str:
    head = {"kind": kind, "schema_version": body.pop("schema_version")}
    return json.dumps(_finite({**head, **body}), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value


FORMAT = Format(
    name="json",
    summary="for programs, with a versioned schema",
    report=report_json,
    verdict=verdict_json,
)
