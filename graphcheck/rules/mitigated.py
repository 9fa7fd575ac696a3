"""Findings on kernels that a patch puts right: they stay visible, as notes.

A rule speaks of the runtime's own kernel. Where the user's library runs the call, that fault is
mended, if a probe with the library loaded, or graphcheck's own tests of the library, say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from graphcheck.graph.types import JointGraph
from graphcheck.opset.types import KernelLibrary, SourceStamp
from graphcheck.rules.interface import Context
from graphcheck.rules.kernels import supports
from graphcheck.rules.types import Finding, Severity

__all__ = ["mitigate"]

_FAMILIES = ("GC1", "GC2", "GC3", "GC4")


def mitigate(findings: Iterable[Finding], graph: JointGraph, context: Context) -> Iterator[Finding]:
    """The findings, those that a kernel library or a patched source mends as notes that say so."""
    if context.opset.stamps:
        findings = [_stamped(finding, context.opset.stamps) for finding in findings]
    if not context.opset.libraries:
        yield from findings
        return
    libraries = {
        call.node: support.library
        for call, support in supports(graph, context.opset)
        if support.library is not None
    }
    for finding in findings:
        yield _mitigated(finding, libraries, context)


def _stamped(finding: Finding, stamps: Iterable[SourceStamp]) -> Finding:
    for stamp in stamps:
        patch = stamp.mended.get(finding.advisory)
        if patch is not None:
            tree = f"executorch {stamp.version}" if stamp.version else "executorch"
            told = f"{stamp.name}: the source of {tree} has the patch {patch}"
            evidence = (told, *finding.evidence)
            return _as_note(finding, stamp.name, f"{patch} is in the source", evidence)
    return finding


def _mitigated(
    finding: Finding, libraries: Mapping[str, KernelLibrary], context: Context
) -> Finding:
    runs = [libraries.get(node) for node in finding.nodes]
    library = runs[0] if runs else None
    if finding.family not in _FAMILIES or library is None or not all(runs):
        return finding
    if not finding.advisory:
        told = f"{library.name} registers a kernel for these arguments"
        return _note(finding, library, (told, *finding.evidence))
    probe = context.library_probes.get(finding.advisory)
    if probe is not None and probe.outcome == "right":
        told = f"{finding.advisory}, measured here with {library.name}: {probe.figure}"
        return _note(finding, library, (told, *finding.evidence))
    if probe is not None and probe.outcome == "wrong":
        told = f"{finding.advisory}, measured here with {library.name}: {probe.figure}"
        return replace(finding, evidence=(told, *finding.evidence))
    why = probe.detail if probe is not None and probe.detail else "its probe did not run"
    told = f"{finding.advisory}, NOT MEASURED with {library.name} ({why})"
    return _note(finding, library, (told, *finding.evidence)) if library.known else finding


def _note(finding: Finding, library: KernelLibrary, evidence: tuple[str, ...]) -> Finding:
    return _as_note(finding, library.name, f"{library.name} runs it", evidence)


def _as_note(finding: Finding, by: str, how: str, evidence: tuple[str, ...]) -> Finding:
    return replace(
        finding,
        severity=Severity.NOTE,
        message=f"{finding.message}; mitigated by patch: {how}",
        evidence=evidence,
        mends=(),
        mitigated=by,
    )
