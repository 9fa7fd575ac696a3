"""Does the verdict of `graphcheck check` agree with what the runtime did? One-op training graphs.

    python bench/layers_static.py CASES_FOLDER [--measured FILE] [--output TABLE.md] [--json FILE]

CASES_FOLDER holds `layers.py` (a list CASES of one-op graphs) and `layers_expected.json` (what the
stock runtime did with most of them); FILE is what `layers_measure.py` measured of the others. Every
case is checked with all rules and probes; the result is a confusion table in Markdown, with a
reason for each case off its diagonal. Exits with 1 on a false alarm or a fault that is not seen.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import signal
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

VERDICTS = ("not exported", "no out variant", "missing", "refused", "wrong", "risk", "right")
# Of a case's outcome as measured. A random one is compared by replay, if it was measured again.
OUTCOMES = {
    "export error": "not exported",
    "joint export error": "not exported",
    "missing out variant": "no out variant",
    "missing kernel": "missing",
    "runtime error": "refused",
    "wrong grad": "wrong",
    "wrong loss": "wrong",
    "NaN": "wrong",
    "right": "right",
}
# Of the codes of a report; the first one found counts. GC508 speaks of an optimizer beside the
# program, which neither loss nor gradients can show: it is counted on its own.
ERRORS = (
    ("not exported", ("GC0",)),
    ("no out variant", ("GC102",)),
    ("missing", ("GC1",)),
    ("refused", ("GC2",)),
    ("wrong", ("GC",)),
)
BESIDE = ("GC508",)


def case_module(case: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The training graph of a case: layer before, op, weighted sum; with its example inputs."""
    import torch

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    x = case["x"]
    x = x(generator) if callable(x) else torch.randn(x, generator=generator)
    extra = tuple(case["extra"](generator)) if "extra" in case else ()
    pre = case["pre"]() if "pre" in case else torch.nn.Linear(x.shape[-1], x.shape[-1])
    model = _case_class()(pre, case["op"](), zero=bool(case.get("zero")))
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


@cache
def _case_class() -> Any:
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


def load_cases(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    spec = importlib.util.spec_from_file_location("layers", folder / "layers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    expected = json.loads((folder / "layers_expected.json").read_text())
    return module.CASES, expected


# The static side


def check_case(case: dict[str, Any]) -> dict[str, Any]:
    """What `graphcheck check` says of a case: its findings, and what it left open."""
    from graphcheck.options import CheckOptions
    from graphcheck.pipeline import check_workload
    from graphcheck.workload.types import Workload

    module, inputs = case_module(case)
    workload = Workload(module=module, inputs=inputs, root_type="Case")
    report = check_workload(workload, CheckOptions(target="Case"))
    return {
        "findings": [[f.code, f.severity.value, f.subject, f.message] for f in report.findings],
        "not checked": [] if report.failed else [str(open_) for open_ in report.not_checked],
    }


def timed(case: dict[str, Any], seconds: int) -> dict[str, Any]:
    """`check_case` with a time limit; an exception is an answer."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return check_case(case)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)


def _alarms(findings: list[list[str]]) -> list[list[str]]:
    """Errors and warnings."""
    return [finding for finding in findings if finding[1] != "note"]


def verdict_of(findings: list[list[str]]) -> str:
    """The worst finding: errors by kind, then any warning, then right."""
    counted = [f for f in _alarms(findings) if not f[0].startswith(BESIDE)]
    errors = [code for code, severity, *_ in counted if severity == "error"]
    for verdict, prefixes in ERRORS:
        if any(code.startswith(prefixes) for code in errors):
            return verdict
    return "risk" if counted else "right"


# The table


def table(
    results: dict[str, dict[str, Any]], expected: dict[str, Any], measured: dict[str, Any]
) -> tuple[str, bool]:
    """Confusion table and lists in Markdown; whether every disagreement has a reason."""
    counts: Counter[tuple[str, str]] = Counter()
    sources: Counter[str] = Counter()
    beside: list[str] = []
    off: dict[str, list[str]] = {}
    unmeasured: dict[str, list[str]] = {}
    for name, result in results.items():
        findings = result.get("findings", [])
        row, again = expected.get(name), measured.get(name)
        outcome = (row or again or {}).get("outcome", "")
        if outcome == "ran (random)" and again is not None:
            # Seen to run at first, compared by replay of the runtime's own draws at last.
            row, outcome = None, again["outcome"]
        compared = row is None and outcome == "ran (random)"
        truth = "right" if compared else OUTCOMES.get(outcome)
        said = verdict_of(findings)
        if "failed" in result:
            off.setdefault("NOT CHECKED", []).append(f"`{name}`: {result['failed']}")
        elif truth is None:
            unmeasured.setdefault(f"said {said}" + (f", {outcome}" if outcome else ""), []).append(
                name
            )
        else:
            counts[truth, said] += 1
            sources["expected" if row else "measured"] += 1
            if said == "right" == truth and _alarms(findings):
                beside.append(name)
            if said != truth:
                why = (again or {}).get("reason", "")
                line = _line(name, outcome, said, findings, again if row else None, why)
                reason = _reason(truth, said, findings, again if row else None)
                off.setdefault(reason, []).append(line)
    if unmeasured:
        off["NOT MEASURED"] = [
            f"{kind} ({len(names)}): " + ", ".join(f"`{name}`" for name in names)
            for kind, names in unmeasured.items()
        ]
    agreed = sum(counts[verdict, verdict] for verdict in VERDICTS)
    lines = [
        "| measured \\ said | " + " | ".join(VERDICTS) + " |",
        "| --- |" + " ---: |" * len(VERDICTS),
    ]
    for truth in VERDICTS:
        if truth != "risk":
            row_text = " | ".join(str(counts[truth, said] or "") for said in VERDICTS)
            lines.append(f"| {truth} | {row_text} |")
    lines += [
        "",
        f"{agreed} of {sum(counts.values())} agree ({sources['expected']} of them measured before, "
        f"{sources['measured']} by `bench/layers_measure.py`). "
        f"Not measured: {sum(map(len, unmeasured.values()))}. "
        f"Not checked: {len(off.get('NOT CHECKED', []))}.",
    ]
    if beside:
        lines += [
            "",
            f"{len(beside)} half-precision cases in the corner of `right` have a GC508 warning. It "
            "speaks of the SGD of the Python bindings, which is no part of the program: loss and "
            "gradients are right, an update by that optimizer is not (GC508 has its own probe).",
        ]
    for reason in sorted(off):
        number = (
            len(off[reason]) if reason != "NOT MEASURED" else sum(map(len, unmeasured.values()))
        )
        lines += ["", f"### {reason} ({number})", ""]
        lines += [f"- {line}" for line in sorted(off[reason])]
    return "\n".join(lines) + "\n", not {MISSED, FALSE_ALARM, OTHER, "NOT CHECKED"} & set(off)


MISSED = "Missed: measured at fault, said right"
FALSE_ALARM = "False alarm: measured right, said otherwise"
OTHER = "At fault, seen as another kind"
RISK = "Measured wrong, told as a numerics risk (warning)"
NOTED = "Measured wrong, told in a note of GC4"
ACQUITTED = "Measured at fault at first, right when measured again"


def _reason(truth: str, said: str, findings: list[list[str]], again: dict[str, Any] | None) -> str:
    if truth == "right":
        return FALSE_ALARM
    if said == "risk":
        return RISK
    if said != "right":
        return OTHER
    if again is not None and again["outcome"] == "right":
        return ACQUITTED
    noted = truth == "wrong" and any(code.startswith("GC4") for code, *_ in findings)
    return NOTED if noted else MISSED


def _line(
    name: str,
    outcome: str,
    said: str,
    findings: list[list[str]],
    again: dict[str, Any] | None,
    measured: str,
) -> str:
    # A note says something of the outcome where it is one on numerics or on tied weights alone.
    telling = [f for f in findings if f[1] != "note" or f[0].startswith(("GC4", "GC504"))]
    told = "; ".join(f"{code} {subject} {message}" for code, _, subject, message in telling)
    line = f"`{name}`: measured {outcome}, said {said}" + (f" ({told})" if told else "")
    if again is None:
        return line + (f". {measured}" if measured else "")
    reason = again.get("reason", "")
    how = " with strict export" if again.get("strict") else ""
    return f"{line}. Measured again{how}: {again['outcome']}" + (f" ({reason})" if reason else "")


HEAD = """\
# One-op training graphs: what `graphcheck check` says, what the runtime does

Made by `python bench/layers_static.py CASES_FOLDER --output bench/results/layers.md` with torch
{torch}, executorch {executorch}. Every case is a trainable layer, one op and a weighted-sum loss.
A row is what the stock runtime did (the export or the lowering failed, the program could not run,
loss and gradients against eager); a column is the worst finding of the check, all rules and probes
on. `wrong` is an error of GC3 or GC5, `risk` a warning of GC3 or GC4.

"""
WORDS = """
Two measurements stand behind the rows. The first compared four runs on differently filled memory
with fixed tolerances by type: in float16 and bfloat16 some of its `wrong` are rounding. The second,
`bench/layers_measure.py`, trains two steps in the native runner and holds each gradient against
what rounding alone does to eager. Where both exist, the first one decides the row, and the lists
below tell the second, too. Only models that draw random numbers are always judged by the second: it
replays the runtime's own draws.
"""


def report(text: str) -> str:
    from importlib import metadata

    versions = {package: metadata.version(package) for package in ("torch", "executorch")}
    head, _, lists = text.partition("\n###")
    return HEAD.format(**versions) + head + WORDS + ("\n###" + lists if lists else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", type=Path, help="folder with layers.py and layers_expected.json")
    parser.add_argument(
        "--measured",
        type=Path,
        default=Path(__file__).parent / "layers_measured.json",
        help="what layers_measure.py wrote",
    )
    parser.add_argument("--output", type=Path, help="write the table here, too")
    parser.add_argument(
        "--json", type=Path, help="results; a run that was ended goes on where it was"
    )
    parser.add_argument("--only", action="append", default=[], help="prefix of group/name")
    parser.add_argument("--seconds", type=int, default=300, help="time limit of one case")
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
        results[name] = timed(case, options.seconds)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
        print(f"{len(results):4d} {name}", file=sys.stderr, flush=True)
    measured = json.loads(options.measured.read_text()) if options.measured.is_file() else {}
    text, agrees = table(results, expected, measured)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(report(text))
    print(text)
    return 0 if agrees else 1


if __name__ == "__main__":
    raise SystemExit(main())
