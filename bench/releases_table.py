"""The table of `bench/releases.py`: what graphcheck says of each release, and what it does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("seed_cnn", "avg_pool", "batch_norm", "conv1d", "healthy")
_MEANS = (
    ("refused by the exporter", ("GC102", "GC103", "GC104")),
    ("stops in its first step", ("GC101", "GC20")),
    ("silently wrong", ("GC301",)),
    ("not measured", ("GC302",)),
)


def said(versions: Iterable[str]) -> dict[str, dict[str, tuple[str, str]]]:
    """By version and model: what graphcheck says in one word, and its codes."""
    from graphcheck.graph.capture import capture
    from graphcheck.judging import consult, run_rules
    from graphcheck.opset.load import load
    from graphcheck.rules.types import Severity
    from graphcheck.workload.load import load as load_workload
    from graphcheck.workload.request import WorkloadRequest

    graphs = {}
    for model in MODELS:
        target = str(ROOT / "tests" / "models" / f"{model}.py")
        graphs[model] = capture(load_workload(WorkloadRequest(target)))
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for version in versions:
        opset = load(f"executorch=={version}")
        found[version] = {}
        for model, graph in graphs.items():
            context, _ = consult(graph, opset)
            findings = [
                f
                for f in run_rules(graph, context)
                if f.severity in (Severity.ERROR, Severity.WARNING)
            ]
            codes = sorted({f.code for f in findings})
            word = next((w for w, start in _MEANS if any(c.startswith(start) for c in codes)), "")
            found[version][model] = (word or ("other" if codes else "right"), ", ".join(codes))
    return found


def table(answers: dict[str, Any]) -> str:
    """The Markdown of the whole result."""
    from graphcheck.opset.load import load
    from graphcheck.opset.registry import shipped

    versions = [name.removeprefix("executorch-") for name in shipped()]
    says = said(versions)
    lines = [
        "# Every release",
        "",
        "Made by `python bench/releases.py --environment VERSION=SITE ... --table`: each release's "
        "own exporter and runtime, with the torch it asks for, on Linux x86-64. Beside it what "
        "`graphcheck check --target executorch==VERSION` says with executorch "
        f"{_installed()} installed: it runs nothing of the other releases.",
        "",
        "## Four models, and one that is right",
        "",
        "| release | model | graphcheck says | measured | agree |",
        "| --- | --- | --- | --- | --- |",
    ]
    agree = total = 0
    for version in versions:
        measured = answers.get(version, {}).get("answers", {})
        for model in MODELS:
            word, codes = says[version][model]
            outcome, figure = measured.get(f"model:{model}", ["NOT MEASURED", ""])
            same = word == outcome
            if outcome != "NOT MEASURED":
                total += 1
                agree += same
            mark = "" if outcome == "NOT MEASURED" else "yes" if same else "NO"
            told = f"{word} ({codes})" if codes else word
            figure = figure.partition(" (http")[0]
            lines.append(f"| {version} | {model} | {told} | {outcome}: {figure} | {mark} |")
    lines += ["", f"{agree} of {total} measured verdicts agree.", ""]
    lines += ["## Probes of advisories", "", *_grid("probe:", versions, answers), ""]
    lines += [
        "## Cases of limits",
        "",
        "One case or more for each limit that a program can reach (`bench/releases_cases.py`).",
        "",
        *_grid("limit:", versions, answers),
        "",
        "## Kernels",
        "",
        "| release | portable | of these optimized | quantized | torch |",
        "| --- | --- | --- | --- | --- |",
    ]
    for version in versions:
        opset = load(version)
        about = answers.get(version, {}).get("environment", "not measured").split()
        lines.append(
            f"| {version} | {len(opset.kernels - opset.optimized_only)} | {len(opset.optimized)} "
            f"| {len(opset.quantized)} | {about[-1]} |"
        )
    return "\n".join(lines) + "\n"


def _grid(prefix: str, versions: list[str], answers: dict[str, Any]) -> list[str]:
    items = sorted(
        {item for a in answers.values() for item in a["answers"] if item.startswith(prefix)}
    )
    lines = [
        f"| {prefix.strip(':')} | {' | '.join(versions)} |",
        "| --- " * (len(versions) + 1) + "|",
    ]
    for item in items:
        cells = [
            answers.get(version, {}).get("answers", {}).get(item, ["not measured"])[0]
            for version in versions
        ]
        lines.append(f"| {item.removeprefix(prefix)} | {' | '.join(cells)} |")
    return lines


def _installed() -> str:
    from graphcheck.opset.load import installed_version

    return installed_version()
