"""Text for a reader at a terminal: one line per finding, details indented below it."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.report.about import artefact_lines
from graphcheck.report.ansi import Paint, closing, wrap
from graphcheck.report.interface import Format, Look
from graphcheck.report.order import count_by_severity, ordered
from graphcheck.report.place import place_of, short_path, shorten
from graphcheck.report.text_verdict import verdict_text
from graphcheck.report.types import Report
from graphcheck.report.words import (
    explain_command,
    headline,
    mend_label,
    next_command,
    reach,
    report_summary,
    versions_line,
)
from graphcheck.rules.types import Finding, Severity

__all__ = ["FORMAT", "report_text"]

_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_INDENT = "    "
_EVIDENCE_SHOWN = 3


def report_text(report: Report, look: Look) -> str:
    """The whole report. Quiet leaves the lines of errors and warnings and the summary."""
    paint = Paint(color=look.color)
    blocks = [list(block) for block in _blocks(report, look, paint)]
    gap = "\n" if look.verbosity < 0 else "\n\n"
    return gap.join("\n".join(block) for block in blocks if block) + "\n"


def _blocks(report: Report, look: Look, paint: Paint) -> Iterator[Iterator[str]]:
    findings = ordered(report.findings)
    if report.artefact is not None and look.verbosity >= 0:
        yield artefact_lines(report.artefact, look, paint)
    for severity in (Severity.ERROR, Severity.WARNING):
        yield _group(report, [f for f in findings if f.severity is severity], look, paint)
    if look.verbosity >= 0:
        yield _notes(report, [f for f in findings if f.severity is Severity.NOTE], look, paint)
        yield _suppressed(report, look, paint)
        yield _list("Guessed, since it was not given:", report.guesses, look, paint)
        yield _list("NOT CHECKED:", [f"{n.what}: {n.why}" for n in report.not_checked], look, paint)
    yield _end(report, look, paint)


def _group(report: Report, findings: list[Finding], look: Look, paint: Paint) -> Iterator[str]:
    if not findings:
        return
    if look.verbosity >= 0:
        severity = findings[0].severity
        name = (
            f"{severity.value.capitalize()}s" if len(findings) > 1 else severity.value.capitalize()
        )
        yield paint(name, _COLORS[severity], "bold")
    for finding in findings:
        yield _line(report, finding, look, paint)
        if look.verbosity >= 0:
            yield from _details(finding, look, paint)


def _line(report: Report, finding: Finding, look: Look, paint: Paint) -> str:
    place = place_of(finding, report.target, look.root)
    text = wrap(f"{place}: {headline(finding)}", look.width, hang="  ")
    if not paint.color:
        return text
    code = paint(finding.code, _COLORS[finding.severity], "bold")
    return text.replace(place, paint(place, "bold"), 1).replace(f" {finding.code}", f" {code}", 1)


def _details(finding: Finding, look: Look, paint: Paint) -> Iterator[str]:
    def line(label: str, text: str, indent: str = _INDENT) -> str:
        return wrap(f"{label}: {text}", look.width, indent).replace(label, paint(label, "dim"), 1)

    verbose = look.verbosity > 0
    if finding.source.code and verbose:
        yield line("code", finding.source.code)
    reached = reach(finding, shown=len(finding.gradients) if verbose else 1)
    if reached:
        yield line("reaches", reached)
    if verbose and len(finding.modules) > 1:
        yield line("modules", ", ".join(finding.modules))
    shown = finding.evidence if verbose else finding.evidence[:_EVIDENCE_SHOWN]
    for evidence in shown:
        # What explains a failure to load also says what to do about it.
        label = "fix" if finding.family == "GC0" else "evidence"
        yield line(label, shorten(evidence, look.root))
    if len(shown) < len(finding.evidence):
        yield line("evidence", f"{len(finding.evidence) - len(shown)} more with -v")
    for mend in finding.mends:
        label = f"mend, {mend_label(exact=mend.exact)}"
        yield line(label, f"{mend.kind} {mend.name}: {mend.description}")
        if mend.command:
            yield _INDENT * 2 + paint(mend.command, "cyan")
    yield line("next", explain_command(finding))


def _notes(report: Report, findings: list[Finding], look: Look, paint: Paint) -> Iterator[str]:
    unused = report.unused_suppressions
    if not (findings or unused):
        return
    yield paint("Notes" if len(findings) + len(unused) > 1 else "Note", "cyan", "bold")
    for finding in findings:
        yield _line(report, finding, look, paint)
        if look.verbosity > 0:
            yield from _details(finding, look, paint)
    for entry in unused:
        place = f"{short_path(entry.file, look.root)}:{entry.line}"
        yield wrap(f"{place}: unused suppression `{entry.comment}`: {entry.why}", look.width)


def _suppressed(report: Report, look: Look, paint: Paint) -> Iterator[str]:
    if not report.suppressed:
        return
    yield paint(f"Suppressed ({len(report.suppressed)})", "dim", "bold")
    for entry in report.suppressed:
        why = f": {entry.reason}" if entry.reason else ""
        if not entry.reason and entry.by.startswith("comment"):
            why = ", no reason given"
        yield wrap(f"{headline(entry.finding)}: {entry.by}{why}", look.width, "  ")


def _list(
    title: str, entries: tuple[str, ...] | list[str], look: Look, paint: Paint
) -> Iterator[str]:
    if not entries:
        return
    yield paint(title, "bold")
    for entry in entries:
        yield wrap(entry, look.width, "  - ", "")


def _end(report: Report, look: Look, paint: Paint) -> Iterator[str]:
    if report.versions and look.verbosity >= 0:
        yield paint(wrap(versions_line(report.versions), look.width), "dim")
    counts = count_by_severity(report.findings)
    color = (
        "red" if report.failed or counts["error"] else "yellow" if counts["warning"] else "green"
    )
    yield closing(
        report_summary(report), next_command(report, look.again), look.width, paint, color
    )


FORMAT = Format(
    name="text",
    summary="for a reader at a terminal (default)",
    report=report_text,
    verdict=verdict_text,
)
