"""Mutation score of shadow execution: faulty kernels of our own, each caught and named, or not.

    python bench/mutants.py [--write] [NAME ...]

Every mutant is a kernel with one fault that replaces the runtime's own (bench/mutants/*.cpp); the
models of bench/mutants/mutant_models.py train two steps with it under `validate --shadow`. Caught
means that every instruction found wrong is one of the mutant's operator, and that there is one.
`--write` puts the table into bench/results/mutants.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "mutants"))

from mutant_runs import Mutant, build, mutants, validate  # noqa: E402

from graphcheck.validate.types import Verdict  # noqa: E402

_RESULTS = HERE / "results" / "mutants.md"


def _row(mutant: Mutant, verdict: Verdict) -> tuple[bool, str]:
    ops = {wrong.op for wrong in verdict.wrong}
    caught = ops == {mutant.op}
    first = verdict.wrong[0] if verdict.wrong else None
    stale = sorted({s.op for s in verdict.stale if s.caused_by is None})
    found = "missed"
    if first is not None:
        found = f"instruction {first.instruction}"
        if first.size:
            found += f", {first.count} of {first.size} entries, {first.error:.1e}"
        else:
            found += f", {first.detail}"
    if not caught and ops:
        found = f"named {', '.join(sorted(ops))}"
    told = "yes" if caught else "NO"
    loss = verdict.first_locked
    curve = "-" if loss is None else f"{loss.quantity}, {loss.error:.1e}"
    return caught, (
        f"| {mutant.name} | {mutant.op} | {mutant.what} | {told} | {found} | "
        f"{'yes' if stale == [mutant.op] else '-'} | {curve} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    chosen = [m for m in mutants() if not given.names or m.name in given.names]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        libraries = build(Path(folder))
        print(f"built in {time.monotonic() - start:.0f} s", flush=True)
        controls = []
        for model in dict.fromkeys(m.model for m in chosen):
            verdict = validate(model, libraries)
            wrong = ", ".join(f"{w.instruction} {w.op} {w.error:.1e}" for w in verdict.wrong)
            count = verdict.shadow_instructions
            controls.append(
                f"| {model} | {verdict.verdict} | {count} | {len(verdict.wrong)} {wrong} |"
            )
            print(controls[-1], [n for n in verdict.notes if "NOT CHECKED" in n], flush=True)
        rows = []
        for mutant in chosen:
            caught, row = _row(mutant, validate(mutant.model, libraries, mutant.name))
            rows.append((caught, row))
            print(row, flush=True)
    score = f"{sum(caught for caught, _ in rows)} of {len(rows)}"
    print(f"{score} caught, in {time.monotonic() - start:.0f} s")
    if given.write:
        _RESULTS.write_text(_page(score, [row for _, row in rows], controls))
    healthy = all(line.split("|")[2].strip() == "match" for line in controls)
    return 0 if all(caught for caught, _ in rows) and healthy else 1


def _page(score: str, rows: list[str], controls: list[str]) -> str:
    return "\n".join(
        [
            "# Mutants: what shadow execution catches",
            "",
            "Made by `python bench/mutants.py --write`. Each mutant is a kernel of ours with one",
            "fault, registered under specialised keys so that the stock runtime runs it in place",
            "of its own; one library holds all, `GRAPHCHECK_MUTANT` picks one. Caught: `validate",
            "--shadow` finds instructions wrong, and all of them are of the mutant's operator.",
            "The last columns say what else would have told: the stale-output detector naming that",
            "operator alone, and the first quantity in which training itself parts from eager.",
            "",
            f"**{score} caught and named.**",
            "",
            "| mutant | operator | fault | caught | first wrong | stale | training |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            "Controls, the same models and libraries without a mutant:",
            "",
            "| model | verdict | instructions checked | wrong |",
            "| --- | --- | --- | --- |",
            *controls,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
