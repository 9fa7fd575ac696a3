"""Workflow commands of GitHub Actions: each finding becomes an annotation of its source line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from graphcheck.report.following import verdict_next_command
from graphcheck.report.interface import Format, Look
from graphcheck.report.order import ordered
from graphcheck.report.place import column_of, inside, shorten
from graphcheck.report.text_devices import device_sentence
from graphcheck.report.text_verdict import stale_sentence, wrong_details, wrong_sentence
from graphcheck.report.types import Report
from graphcheck.report.words import (
    divergence_sentence,
    headline,
    next_command,
    reach,
    report_summary,
    verdict_summary,
)
from graphcheck.rules.types import Severity

if TYPE_CHECKING:
    from graphcheck.validate.types import Verdict

__all__ = ["FORMAT", "command", "report_github", "verdict_github"]

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?\Z")


def command(level: str, message: str, **properties: str | int) -> str:
    """One workflow command; properties that are empty or 0 are left out."""
    pairs = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value)
    return f"::{level}{' ' + pairs if pairs else ''}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def report_github(report: Report, look: Look) -> str:
    """Annotations, worst first, then the summary as an ordinary line of the log."""
    lines = []
    for finding in ordered(report.findings):
        source = finding.source
        # Only files of the repository can carry an annotation.
        file = inside(source.file, look.root)
        reached = reach(finding, shown=3)
        mends = [f"mend: {mend.command or mend.description}" for mend in finding.mends]
        details = [f"reaches {reached}"] if reached else []
        message = "\n".join([headline(finding), *details, *finding.evidence, *mends])
        lines.append(
            command(
                _LEVELS[finding.severity],
                message if file else f"{report.target}: {message}",
                file=file,
                line=source.line if file else 0,
                col=column_of(source) if file else 0,
                title=finding.code,
            )
        )
    for unused in report.unused_suppressions:
        lines.append(
            command(
                "notice",
                f"unused suppression `{unused.comment}`: {unused.why}",
                file=inside(unused.file, look.root),
                line=unused.line,
                title="unused suppression",
            )
        )
    for left_out in report.not_checked:
        lines.append(command("notice", f"{left_out.what}: {left_out.why}", title="NOT CHECKED"))
    lines.append(_log(f"{report_summary(report)} Next: {next_command(report, look.again)}"))
    return "\n".join(lines) + "\n"


def verdict_github(verdict: Verdict, look: Look) -> str:
    """An annotation for the verdict and one for each instruction with a stale output."""
    title = f"graphcheck validate {verdict.target}"
    level = {"match": "notice", "drift": "warning"}.get(verdict.verdict, "error")
    details = [shorten(verdict_summary(verdict), look.root)]
    for name, divergence in (
        ("training freely", verdict.first_free),
        ("weights reset before each step", verdict.first_locked),
    ):
        if divergence:
            details.append(f"first divergence, {name}: {divergence_sentence(divergence)}")
    details += [f"{one.name}: {device_sentence(one, verdict)}" for one in verdict.devices]
    lines = [command(level, "\n".join(details), title=title)]
    for one in verdict.devices:
        if one.lost and not verdict.required:
            lines.append(command("warning", f"{one.name}: {one.reason}", title="NOT RUN"))
    for stale in verdict.stale:
        if stale.caused_by is None:
            lines.append(
                _at(stale.source, "stale output", stale_sentence(stale, look.root), look.root)
            )
    found = verdict.wrong or ((verdict.first_wrong,) if verdict.first_wrong else ())
    for wrong in found:
        told = "\n".join([wrong_sentence(wrong, look.root), *wrong_details(wrong, look.root)])
        lines.append(_at(wrong.source, "wrong instruction", told, look.root))
    following = verdict_next_command(verdict, look.again)
    tail = f" Next: {following}" if following else ""
    summary = shorten(f"{verdict.target}: {verdict_summary(verdict)}", look.root)
    lines.append(_log(f"{summary}{tail}"))
    return "\n".join(lines) + "\n"


def _at(source: str, title: str, message: str, root: Path) -> str:
    """An error annotation at `source` (`file:line`), as far as that is a file of the repository."""
    match = _PLACE.match(source)
    file = inside(match["file"], root) if match else ""
    line = int(match["line"]) if match and file else 0
    return command("error", f"{title}: {message}", file=file, line=line, title=title)


def _log(text: str) -> str:
    """An ordinary line of the log, which must not be taken for a command."""
    return " ".join(text.split()).lstrip(":")


FORMAT = Format(
    name="github",
    summary="annotations in GitHub Actions",
    report=report_github,
    verdict=verdict_github,
)
