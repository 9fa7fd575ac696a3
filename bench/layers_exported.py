"""One-op training graphs as graphcheck exports them: does each train right on the stock runtime?

    python bench/layers_exported.py CASES_FOLDER [--table bench/results/layers_exported.md]

CASES_FOLDER is that of `layers_static.py`. Every case is exported (rewrites where they are needed,
nothing else) and proven: two training steps in the native runner, every gradient compared with
eager. Those that were not right on the stock flow come first; the table names each case that the
export does not mend, and why. A run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from layers_batches import Rows, run_all, run_batch
from layers_static import case_module, load_cases

STEPS = 2
RIGHT = ("match", "drift")
_PATH = re.compile(r"/(?:[^\s():]+/)+(?=[^\s():/]+\.py)|/(?:[^\s():\"]+/)+[^\s():\"/]*\.\.\.")


def exported(
    case: dict[str, Any], *, shadow: bool = False, on: str = "host", timeout: float = 120.0
) -> Any:
    """The result of exporting and proving one case on a device, or as a row why it was refused."""
    from graphcheck.errors import GraphcheckError
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions
    from graphcheck.workload.types import Workload

    module, inputs = case_module(case)
    workload = Workload(module=module, inputs=inputs, root_type="Case")
    with tempfile.TemporaryDirectory() as folder:
        options = ExportOptions(
            target="Case",
            steps=STEPS,
            on=(on,),
            timeout=timeout,
            reference_steps=1,
            shadow=shadow,
            output=str(Path(folder) / "case.pte"),
        )
        try:
            return export_workload(workload, options)
        except GraphcheckError as error:
            return {"outcome": "refused", "reason": without_paths(str(error))}


def without_paths(text: str) -> str:
    """Files by their names alone."""
    return _PATH.sub("", text)


def export_case(case: dict[str, Any]) -> dict[str, Any]:
    """Export and prove one case: the verdict, or why there is none."""
    result = exported(case)
    if isinstance(result, dict):
        return result
    verdict = result.verdict
    row: dict[str, Any] = {
        "outcome": verdict.verdict if verdict else "refused",
        "reason": without_paths(result.failure or ""),
        "findings": sorted({f"{f.code} {f.subject}" for f in result.findings}),
    }
    if result.card:
        row["rewrites"] = {r.name: r.count for r in result.card.rewrites}
    if verdict and verdict.worst_gradient_errors:
        row["worst"] = str(max(verdict.worst_gradient_errors.values()))
    return row


def table(rows: dict[str, Any], stock: dict[str, str]) -> str:
    """The report: by what the stock flow did, how many train right now, and each that does not."""
    lines = [
        "# One-op training graphs as graphcheck exports them",
        "",
        "Made by `python bench/layers_exported.py CASES_FOLDER`; the stock runtime, no kernel",
        "library. A row is what the stock flow did with the case (bench/results/layers.md).",
        "",
        "| stock flow | cases | right as exported | not |",
        "| --- | ---: | ---: | ---: |",
    ]
    totals, right = Counter[str](), Counter[str]()
    for name, row in rows.items():
        kind = stock.get(name, "not measured")
        totals[kind] += 1
        right[kind] += row["outcome"] in RIGHT
    for kind in sorted(totals, key=lambda k: -totals[k]):
        lines.append(
            f"| {kind} | {totals[kind]} | {right[kind]} | {totals[kind] - right[kind] or ''} |"
        )
    lines.append(
        f"| **all** | {sum(totals.values())} | {sum(right.values())} "
        f"| {sum(totals.values()) - sum(right.values())} |"
    )
    lines += ["", "## Not mended, and why", ""]
    for name in sorted(rows):
        row = rows[name]
        if row["outcome"] not in RIGHT:
            why = row.get("reason") or "; ".join(row.get("findings", ())) or "no reason given"
            lines.append(
                f"- `{name}` (stock: {stock.get(name, 'not measured')}): {row['outcome']}: {why}"
            )
    used = Counter[str]()
    for row in rows.values():
        used.update(row.get("rewrites", {}).keys())
    lines += ["", "## Rewrites at work (cases)", ""]
    lines.append(", ".join(f"{name} {count}" for name, count in sorted(used.items())) + ".")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", type=Path, help="folder with layers.py and layers_expected.json")
    parser.add_argument("--measured", type=Path, default=Path("bench/layers_measured.json"))
    parser.add_argument("--output", type=Path, default=Path("bench/layers_exported.json"))
    parser.add_argument("--table", type=Path, help="write the report here")
    parser.add_argument("--only", action="append", default=[], help="prefix of group/name")
    parser.add_argument("--batch", type=int, default=40, help="cases of one process")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=int, default=300, help="time limit of one case")
    parser.add_argument("--case", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        run_batch(export_case, options.cases, options.case, options.seconds)
        return 0
    cases, expected = load_cases(options.cases)
    measured = json.loads(options.measured.read_text()) if options.measured.is_file() else {}
    stock = {name: row["outcome"] for name, row in {**measured, **expected}.items()}
    rows = Rows(options.output)
    names = [f"{case['group']}/{case['name']}" for case in cases]
    wanted = [
        name
        for name in sorted(names, key=lambda name: stock.get(name) == "right")
        if name not in rows.rows and (not options.only or name.startswith(tuple(options.only)))
    ]
    run_all(__file__, options.cases, rows, wanted, options.batch, options.jobs, options.seconds)
    if options.table:
        options.table.write_text(table(rows.rows, stock))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
