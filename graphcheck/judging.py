"""What is known of a graph: advisories consulted, probes run or remembered, every rule applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from graphcheck.advisory.types import Advisory, ProbeResult
from graphcheck.graph.types import JointGraph
from graphcheck.opset.types import Opset
from graphcheck.report.types import NotChecked
from graphcheck.rewrite.gaps import with_gaps
from graphcheck.rules.interface import Context, all_rules
from graphcheck.rules.mitigated import mitigate
from graphcheck.rules.types import Finding

__all__ = ["consult", "run_rules", "versions"]


def consult(graph: JointGraph, opset: Opset) -> tuple[Context, tuple[NotChecked, ...]]:
    """The context of the rules: advisories that concern this graph, their probes run or cached."""
    from graphcheck.advisory.load import all_advisories
    from graphcheck.advisory.needed import needed
    from graphcheck.advisory.run import probe
    from graphcheck.worker import progress

    advisories = all_advisories()
    wanted = needed(graph, advisories)
    probes: Mapping[str, ProbeResult] = probe(wanted, progress=progress) if wanted else {}
    of_library = _run_by_library(graph, opset)
    again = [a.id for a in advisories if a.id in wanted and of_library.intersection(a.ops)]
    paths = tuple(library.path for library in opset.libraries)
    measured = probe(again, progress=progress, libraries=paths) if again else {}
    context = Context(
        opset=opset, advisories=tuple(advisories), probes=probes, library_probes=measured
    )
    return context, (*_elsewhere(opset), *_unproven(advisories, probes))


def _elsewhere(opset: Opset) -> Iterable[NotChecked]:
    """That the target is not the installed runtime, on which alone things are measured."""
    from graphcheck.opset.load import elsewhere

    why = elsewhere(opset)
    if why:
        build = f" with {opset.library}" if opset.build else ""
        yield NotChecked(f"{opset.runtime} {opset.version}{build} itself", why)


def _run_by_library(graph: JointGraph, opset: Opset) -> frozenset[str]:
    """The ops of which a kernel library runs a call."""
    from graphcheck.opset.support import kernel_of, library_of

    if not opset.libraries:
        return frozenset()
    return frozenset(
        call.op for call in graph.calls if library_of(call, kernel_of(call, opset) or "", opset)
    )


def _unproven(
    advisories: Iterable[Advisory], probes: Mapping[str, ProbeResult]
) -> Iterable[NotChecked]:
    for advisory in advisories:
        result = probes.get(advisory.id)
        if result is not None and result.outcome == "not run":
            yield NotChecked(f"{advisory.id} ({advisory.title})", result.detail)


def run_rules(graph: JointGraph, context: Context) -> tuple[Finding, ...]:
    """Findings of all rules in order of code, one per op call."""
    found: list[Finding] = []
    for rule in all_rules():
        findings = rule.check(graph, replace(context, found=tuple(found)))
        found.extend(mitigate(findings, graph, context))
    return with_gaps(found, graph)


def versions(opset: Opset | None = None) -> dict[str, str]:
    """Versions of graphcheck, torch, executorch and the opset data; reads package metadata only."""
    from importlib import metadata

    from graphcheck import __version__

    found = {"graphcheck": __version__}
    for package in ("torch", "executorch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    if opset is not None:
        found["opset"] = f"{opset.runtime} {opset.version} ({opset.library})"
    return found
