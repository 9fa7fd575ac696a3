"""False alarms of shadow execution over one-op training graphs.

    python bench/shadow_layers.py CASES_FOLDER [--table bench/results/shadow_layers.md]

CASES_FOLDER is that of `layers_static.py`. Every case is exported and proven with every instruction
of its two steps run again in eager. An instruction found wrong in a case whose loss and gradients
are right is an alarm: a false one, or a fault that nothing depends on; each is named in the table.
A run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import Any

from layers_batches import Rows, run_all, run_batch
from layers_exported import RIGHT, STEPS, exported, without_paths
from layers_static import load_cases


def shadow_case(case: dict[str, Any]) -> dict[str, Any]:
    """Export and prove one case with shadow execution: the verdict, and what was found wrong."""
    result = exported(case, shadow=True)
    if isinstance(result, dict):
        return result
    verdict = result.verdict
    if verdict is None:
        return {"outcome": "refused", "reason": without_paths(result.failure or "")}
    notes = [n.removeprefix("shadow execution: ") for n in verdict.notes if "NOT CHECKED" in n]
    return {
        "outcome": verdict.verdict,
        "reason": without_paths(verdict.reason),
        "instructions": verdict.shadow_instructions,
        "wrong": [
            {
                "op": w.op,
                "instruction": w.instruction,
                "detail": w.detail,
                "index": list(w.index),
                "observed": str(w.observed),
                "expected": str(w.expected),
                "error": str(w.error),
                "tolerance": str(w.tolerance),
                "count": f"{w.count} of {w.size}",
            }
            for w in verdict.wrong
        ],
        "unchecked": [without_paths(note) for note in notes],
        "ties": [n for n in verdict.notes if n.startswith("RULE CHANGE")],
        "shadow": next((s.detail for s in verdict.stages if s.name == "shadow"), ""),
    }


def table(rows: dict[str, Any]) -> str:
    """The report: how many instructions were checked, and everything that was not right."""
    ran = {name: row for name, row in rows.items() if row.get("instructions")}
    silent = sum(not row["wrong"] for row in ran.values())
    total = sum(row["instructions"] for row in ran.values())
    lines = [
        "# Shadow execution over one-op training graphs",
        "",
        "Made by `python bench/shadow_layers.py CASES_FOLDER`: each case as graphcheck exports it,",
        f"{STEPS} steps on the host, every instruction of them run again in eager.",
        "",
        f"**{len(ran)} of {len(rows)} cases ran, {total} instructions were checked, "
        f"{silent} cases have none that is wrong.**",
        "",
        "| group | cases | ran | instructions | cases with a wrong instruction |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    groups = Counter(name.partition("/")[0] for name in rows)
    for group in sorted(groups):
        mine = [row for name, row in ran.items() if name.startswith(f"{group}/")]
        checked = sum(row["instructions"] for row in mine)
        alarms = sum(bool(row["wrong"]) for row in mine)
        lines.append(f"| {group} | {groups[group]} | {len(mine)} | {checked} | {alarms or ''} |")
    lines += ["", "## Wrong instructions", ""]
    for name in sorted(ran):
        for w in ran[name]["wrong"]:
            told = w["detail"] or (
                f"{w['count']} entries, {w['observed']} for {w['expected']} at {w['index']}"
            )
            lines.append(f"- `{name}` ({ran[name]['outcome']}): {w['op']}: {told}")
    if silent == len(ran):
        lines.append("None.")
    reasons: dict[str, list[str]] = {}
    for name in sorted(ran):
        for note in ran[name]["unchecked"]:
            plain = re.sub(r"^instruction \d+ ", "", note)
            reasons.setdefault(plain, []).append(name)
    lines += ["", "## NOT CHECKED", ""]
    for reason in sorted(reasons):
        names = list(dict.fromkeys(reasons[reason]))
        lines.append(f"- {reason}: {', '.join(f'`{name}`' for name in names)}")
    if not reasons:
        lines.append("No instruction was left out.")
    lines += ["", "## Did not run", ""]
    for name in sorted(set(rows) - set(ran)):
        reason = " ".join(rows[name].get("reason", "").split())[:200]
        lines.append(f"- `{name}`: {rows[name]['outcome']}: {reason}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", type=Path, help="folder with layers.py and layers_expected.json")
    parser.add_argument("--output", type=Path, default=Path("bench/shadow_layers.json"))
    parser.add_argument("--table", type=Path, help="write the report here")
    parser.add_argument("--only", action="append", default=[], help="prefix of group/name")
    parser.add_argument("--again", action="store_true", help="run cases with a wrong one again")
    parser.add_argument("--batch", type=int, default=40, help="cases of one process")
    parser.add_argument("--seconds", type=int, default=300, help="time limit of one case")
    parser.add_argument("--case", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        run_batch(shadow_case, options.cases, options.case, options.seconds)
        return 0
    cases, _ = load_cases(options.cases)
    rows = Rows(options.output)
    done = {
        name
        for name, row in rows.rows.items()
        if not (options.again and (row.get("wrong") or row["outcome"] not in RIGHT))
    }
    names = [f"{case['group']}/{case['name']}" for case in cases]
    wanted = [
        name
        for name in names
        if name not in done and (not options.only or name.startswith(tuple(options.only)))
    ]
    run_all(__file__, options.cases, rows, wanted, options.batch, 1, options.seconds)
    if options.table:
        options.table.write_text(table(rows.rows))
    return 1 if any(row.get("wrong") for row in rows.rows.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
