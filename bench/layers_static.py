"""Does the static verdict agree with what the runtime did? A sweep over one-op training graphs.

    python bench/layers_static.py CASES_FOLDER [--output TABLE.md] [--only PREFIX] [--json FILE]

CASES_FOLDER holds `layers.py` (a list CASES of one-op graphs) and `layers_expected.json` (what the
stock runtime did with each). Each case is captured and checked; the result is a confusion table in
Markdown. Exits with 1 if a verdict disagrees.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

VERDICTS = ("no out variant", "missing", "refused", "wrong", "right")
# Of a case's outcome as measured; what is not here is not a matter of the graph.
OUTCOMES = {
    "missing out variant": "no out variant",
    "missing kernel": "missing",
    "runtime error": "refused",
    "wrong grad": "wrong",
    "wrong loss": "wrong",
    "NaN": "wrong",
    "right": "right",
    "ran (random)": "right",
}
# Of the codes of a report; the first one found counts.
CODES = (
    ("no out variant", ("GC102",)),
    ("missing", ("GC101", "GC103")),
    ("refused", ("GC2",)),
    ("wrong", ("GC3", "GC501", "GC502")),
)


def case_module(case: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The training graph of a case: layer before, op, weighted sum; with its example inputs."""
    import torch

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    x = case["x"]
    x = x(generator) if callable(x) else torch.randn(x, generator=generator)
    extra = tuple(case["extra"](generator)) if "extra" in case else ()
    pre = case["pre"]() if "pre" in case else torch.nn.Linear(x.shape[-1], x.shape[-1])
    model = _Case(pre, case["op"](), zero=bool(case.get("zero")))
    dtype = case.get("dtype")
    if dtype is not None:
        model = model.to(dtype)
        x, *extra = (t.to(dtype) if t.is_floating_point() else t for t in (x, *extra))
    if case.get("cl"):
        x = x.contiguous(memory_format=torch.channels_last)
    if case.get("clm"):
        model = model.to(memory_format=torch.channels_last)
    model.train(case.get("train", True))
    inputs = (x, *extra)
    model.weigh(*inputs)
    return model, inputs


def _case_class() -> type:
    import torch

    class Case(torch.nn.Module):
        """`sum(weights * op(pre(x)))`: distinct weights, so that no fault hides in a plain sum."""

        def __init__(self, pre: Any, op: Any, *, zero: bool) -> None:
            super().__init__()
            self.pre = pre
            self.op = op
            if zero:
                with torch.no_grad():
                    for parameter in pre.parameters():
                        parameter.zero_()

        def weigh(self, *inputs: Any) -> None:
            generator = torch.Generator().manual_seed(5)
            for number, output in enumerate(self.outputs(*inputs)):
                weights = torch.randn(output.shape, generator=generator).to(output.dtype)
                self.register_buffer(f"weights{number}", weights)

        def outputs(self, x: Any, *extra: Any) -> list[Any]:
            leaves = torch.utils._pytree.tree_leaves(self.op(self.pre(x), *extra))
            return [leaf for leaf in leaves if leaf.is_floating_point()]

        def forward(self, x: Any, *extra: Any) -> Any:
            loss: Any = 0
            for number, output in enumerate(self.outputs(x, *extra)):
                loss = loss + (output * getattr(self, f"weights{number}")).sum()
            return loss

    return Case


def _Case(*args: Any, **kwargs: Any) -> Any:
    return _case_class()(*args, **kwargs)


def verdict_of(codes: list[str]) -> str:
    for verdict, wanted in CODES:
        if any(code.startswith(wanted) for code in codes):
            return verdict
    return "right"


def check_case(case: dict[str, Any], advisories: bool) -> dict[str, Any]:
    """Codes of error findings, or what kept the case from being checked."""
    from graphcheck.errors import ModelError
    from graphcheck.graph.capture import capture
    from graphcheck.opset.load import load
    from graphcheck.opset.support import kernel_of
    from graphcheck.pipeline import consult, run_rules
    from graphcheck.rules.interface import Context
    from graphcheck.workload.types import Workload

    module, inputs = case_module(case)
    workload = Workload(module=module, inputs=inputs, root_type="Case")
    opset = load("installed")
    try:
        graph = capture(workload)
    except ModelError as error:
        return {"failed": error.code, "why": error.message}
    context = consult(graph, opset)[0] if advisories else Context(opset=opset)
    findings = [f for f in run_rules(graph, context) if f.severity.value == "error"]
    return {
        "codes": sorted({f.code for f in findings}),
        "findings": sorted({f"{f.code} {f.subject} {f.message}" for f in findings}),
        "kernels": sorted({kernel_of(call, opset) or "" for call in graph.calls}),
    }


def timed(case: dict[str, Any], seconds: int, advisories: bool) -> dict[str, Any]:
    """`check_case` with a time limit; an exception is an answer."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return check_case(case, advisories)
    except Exception as error:
        return {"failed": "internal", "why": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)


def load_cases(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    spec = importlib.util.spec_from_file_location("layers", folder / "layers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    expected = json.loads((folder / "layers_expected.json").read_text())
    return module.CASES, expected


def table(results: dict[str, dict[str, Any]], expected: dict[str, Any]) -> tuple[str, bool]:
    """The confusion table with the cases off its diagonal, and whether there are none."""
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    skipped: list[str] = []
    for name, result in results.items():
        outcome = expected.get(name, {}).get("outcome", "not measured")
        measured = OUTCOMES.get(outcome)
        if "failed" in result:
            line = f"- `{name}`: {result['failed']} {result['why']} (measured: {outcome})"
            (skipped if measured is None else wrong).append(line)
            continue
        verdict = verdict_of(result["codes"])
        if measured is None:
            skipped.append(f"- `{name}`: {verdict} (measured: {outcome})")
            continue
        counts[measured, verdict] += 1
        if measured != verdict:
            reasons = "; ".join(result["findings"]) or "no finding"
            wrong.append(f"- `{name}`: measured {outcome}, said {verdict} ({reasons})")
    lines = [
        "| measured \\ said | " + " | ".join(VERDICTS) + " |",
        "| --- |" + " ---: |" * len(VERDICTS),
    ]
    for measured in VERDICTS:
        row = " | ".join(str(counts[measured, said] or "") for said in VERDICTS)
        lines.append(f"| {measured} | {row} |")
    agreed = sum(counts[verdict, verdict] for verdict in VERDICTS)
    lines += ["", f"{agreed} of {sum(counts.values())} agree."]
    if wrong:
        lines += ["", "Disagreements", "", *sorted(wrong)]
    if skipped:
        lines += ["", "Without a measured outcome to compare with", "", *sorted(skipped)]
    return "\n".join(lines) + "\n", not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", type=Path, help="folder with layers.py and layers_expected.json")
    parser.add_argument("--output", type=Path, help="write the table here, too")
    parser.add_argument(
        "--json", type=Path, help="results; a run that was ended goes on where it was"
    )
    parser.add_argument("--only", action="append", default=[], help="prefix of group/name")
    parser.add_argument("--seconds", type=int, default=300, help="time limit of one case")
    parser.add_argument("--advisories", action="store_true", help="probe known faults, too")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    cases, expected = load_cases(options.cases)
    results: dict[str, dict[str, Any]] = {}
    if options.json and options.json.is_file():
        results = json.loads(options.json.read_text())
    for case in cases:
        name = f"{case['group']}/{case['name']}"
        if name in results or (options.only and not name.startswith(tuple(options.only))):
            continue
        results[name] = timed(case, options.seconds, options.advisories)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
        print(f"{len(results):4d} {name}", file=sys.stderr)
    text, agrees = table(results, expected)
    if options.output:
        options.output.write_text(text)
    print(text)
    return 0 if agrees else 1


if __name__ == "__main__":
    raise SystemExit(main())
