"""False alarms of shadow execution over one-op training graphs.

    python bench/shadow_layers.py CASES_FOLDER [--table bench/results/shadow_layers.md]
    python bench/shadow_layers.py CASES_FOLDER --on qemu-aarch64 [--one-per-op] [--minutes N]
        --output bench/results/shadow_layers_qemu.jsonl --table bench/results/shadow_layers_qemu.md

CASES_FOLDER is that of `layers_static.py`. Every case is exported and proven with every instruction
of its two steps run again in eager. An instruction found wrong in a case whose loss and gradients
are right is an alarm: a false one, or a fault that nothing depends on; each is named in the table.
On a slow device `--one-per-op` takes the first case of every op (in half and double precision, of
every op and dtype); without it these cases come first. A run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import re
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from layers_batches import Rows, run_all, run_batch
from layers_exported import RIGHT, STEPS, exported, without_paths
from layers_static import load_cases


def shadow_case(case: dict[str, Any], on: str = "host") -> dict[str, Any]:
    """Export and prove one case with shadow execution: the verdict, and what was found wrong."""
    result = exported(case, shadow=True, on=on, timeout=120.0 if on == "host" else 300.0)
    if isinstance(result, dict):
        return result
    verdict = result.verdict
    if verdict is None:
        return {"outcome": "refused", "reason": without_paths(result.failure or "")}
    notes = [n.removeprefix("shadow execution: ") for n in verdict.notes if "NOT CHECKED" in n]
    devices = [f"{device.name} ({device.machine})" for device in verdict.devices]
    return {
        "outcome": verdict.verdict,
        "reason": without_paths(verdict.reason),
        "on": ", ".join(devices),
        "kernels": list(result.card.kernels) if result.card else [],
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


def op_of(name: str) -> str:
    """The op of a case `group/name`, by its first word; with its dtype where that is the case's."""
    group, _, case = name.partition("/")
    return name if group == "dtype" else f"{group}/{re.split(r'[_(]', case)[0]}"


def by_op(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The first case of each op, and the others."""
    first = {op_of(name): name for name in reversed(names)}
    chosen = set(first.values())
    return [n for n in names if n in chosen], [n for n in names if n not in chosen]


def table(rows: dict[str, Any], on: str, names: Sequence[str]) -> str:
    """The report: how many instructions were checked, and everything that was not right."""
    ran = {name: row for name, row in rows.items() if row.get("instructions")}
    silent = sum(not row["wrong"] for row in ran.values())
    total = sum(row["instructions"] for row in ran.values())
    made = "python bench/shadow_layers.py CASES_FOLDER"
    lines = [
        f"# Shadow execution over one-op training graphs{'' if on == 'host' else f', on {on}'}",
        "",
        *textwrap.wrap(
            f"Made by `{made if on == 'host' else f'{made} --on {on}'}`: each case as graphcheck "
            f"exports it, {STEPS} steps on {'the host' if on == 'host' else on}, every instruction "
            "of them run again in eager PyTorch on this machine.",
            100,
        ),
        "",
        f"**{len(ran)} of {len(rows)} cases ran, {total} instructions were checked, "
        f"{silent} cases have none that is wrong.**",
        "",
    ]
    kernels = {kernel for row in ran.values() for kernel in row.get("kernels", ())}
    if on != "host":
        ops = {op_of(name) for name in names}
        begun = {op_of(name) for name in rows}
        told = (
            f"Of {len(names)} cases {len(rows)} were begun, {len(names) - len(rows)} were NOT RUN "
            f"on {on}. Those begun are of {len(begun)} ops (in the group of dtypes: op and dtype) "
            f"of {len(ops)}; the programs that ran call {len(kernels)} kernels."
        )
        lines += [*textwrap.wrap(told, 100), ""]
    lines += [
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
            plain = re.sub(r"^(stale outputs: )?instruction \d+ ", r"\1", note)
            plain = re.sub(
                r"can change .* in every step \(.*?\)", "can change gradients by over 5 %", plain
            )
            reasons.setdefault(plain, []).append(name)
    lines += ["", "## NOT CHECKED", ""]
    for reason in sorted(reasons):
        found = ", ".join(f"`{name}`" for name in dict.fromkeys(reasons[reason]))
        lines.append(f"- {reason}: {found}")
    if not reasons:
        lines.append("No instruction was left out.")
    lines += ["", "## Did not run", ""]
    for name in sorted(set(rows) - set(ran)):
        reason = " ".join(rows[name].get("reason", "").split())[:200]
        lines.append(f"- `{name}`: {rows[name]['outcome']}: {reason}")
    if on != "host":
        left = [name for name in names if name not in rows]
        lines += ["", f"## NOT RUN on {on}", ""]
        lines.append(", ".join(f"`{name}`" for name in left) + "." if left else "None.")
        lines += ["", "## Kernels of the programs that ran", ""]
        lines.append(", ".join(f"`{kernel}`" for kernel in sorted(kernels)) + ".")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", type=Path, help="folder with layers.py and layers_expected.json")
    parser.add_argument("--output", type=Path, default=Path("bench/shadow_layers.json"))
    parser.add_argument("--table", type=Path, help="write the report here")
    parser.add_argument("--only", action="append", default=[], help="prefix of group/name")
    parser.add_argument("--on", default="host", help="the device; another needs its own --output")
    parser.add_argument("--one-per-op", action="store_true", help="the first case of every op")
    parser.add_argument("--again", action="store_true", help="run cases with a wrong one again")
    parser.add_argument("--batch", type=int, default=40, help="cases of one process")
    parser.add_argument("--seconds", type=int, default=300, help="time limit of one case")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no batch after these")
    parser.add_argument("--case", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        measure = partial(shadow_case, on=options.on)
        run_batch(measure, options.cases, options.case, options.seconds)
        return 0
    if options.on != "host" and options.output == parser.get_default("output"):
        parser.error(f"--on {options.on} needs --output: the default holds the host's rows")
    cases, _ = load_cases(options.cases)
    rows = Rows(options.output)
    done = {
        name
        for name, row in rows.rows.items()
        if not (options.again and (row.get("wrong") or row["outcome"] not in RIGHT))
    }
    names = [f"{case['group']}/{case['name']}" for case in cases]
    first, others = by_op(names)
    wanted = [
        name
        for name in (first if options.one_per_op else first + others)
        if name not in done and (not options.only or name.startswith(tuple(options.only)))
    ]
    end = time.monotonic() + 60 * options.minutes
    for at in range(0, len(wanted), options.batch):
        if time.monotonic() > end:
            break
        some, words = wanted[at : at + options.batch], ("--on", options.on)
        run_all(__file__, options.cases, rows, some, options.batch, 1, options.seconds, words=words)
        if options.table:
            options.table.write_text(table(rows.rows, options.on, names))
    if options.table:
        options.table.write_text(table(rows.rows, options.on, names))
    return 1 if any(row.get("wrong") for row in rows.rows.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
