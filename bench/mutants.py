"""Mutation score of shadow execution: faulty kernels of our own, each caught and named, or not.

    python bench/mutants.py [--on host,qemu-aarch64] [--write] [NAME ...]

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
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "mutants"))

from mutant_runs import TARGETS, Mutant, build, mutants, validate  # noqa: E402

from graphcheck.validate.types import Verdict  # noqa: E402

_RESULTS = HERE / "results" / "mutants.md"


def _found(mutant: Mutant, verdict: Verdict) -> tuple[bool, str]:
    """Whether it was caught and named, and what shadow execution told of it."""
    ops = {wrong.op for wrong in verdict.wrong}
    if ops != {mutant.op}:
        told = f"named {', '.join(sorted(ops))}" if ops else f"{verdict.verdict}: {verdict.reason}"
        return False, f"MISSED, {told}"
    first = verdict.wrong[0]
    if not first.size:
        return True, f"instruction {first.instruction}, {first.detail}"
    share = f"{first.count} of {first.size} entries"
    return True, f"instruction {first.instruction}, {share}, {first.error:.1e}"


def _row(mutant: Mutant, found: dict[str, Verdict]) -> tuple[list[bool], str]:
    judged = [_found(mutant, verdict) for verdict in found.values()]
    first = next(iter(found.values()))
    stale = sorted({s.op for s in first.stale if s.caused_by is None})
    loss = first.first_locked
    curve = "-" if loss is None else f"{loss.quantity}, {loss.error:.1e}"
    cells = [mutant.name, mutant.op, mutant.what, *(told for _, told in judged)]
    cells += ["yes" if stale == [mutant.op] else "-", curve]
    return [caught for caught, _ in judged], _cells(cells)


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--on", default="host", help=f"of {', '.join(TARGETS)}; several by comma")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    chosen = [m for m in mutants() if not given.names or m.name in given.names]
    devices = given.on.split(",")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        libraries = {on: build(Path(folder), on) for on in devices}
        print(f"built in {time.monotonic() - start:.0f} s", flush=True)
        controls, healthy = [], True
        for model in dict.fromkeys(m.model for m in chosen):
            for on in devices:
                verdict = validate(model, libraries[on], on=on)
                wrong = [f"{w.instruction} {w.op} {w.error:.1e}" for w in verdict.wrong]
                healthy = healthy and verdict.verdict == "match" and not wrong
                cells = [model, on, verdict.verdict, str(verdict.shadow_instructions)]
                controls.append(_cells([*cells, ", ".join(wrong) or "none"]))
                left = [note for note in verdict.notes if "NOT CHECKED" in note]
                print(controls[-1], verdict.reason, left, flush=True)
        rows, scores = [], []
        for mutant in chosen:
            caught, row = _row(
                mutant,
                {on: validate(mutant.model, libraries[on], mutant.name, on=on) for on in devices},
            )
            rows.append(row)
            scores.append(caught)
            print(row, flush=True)
    counts = [
        f"{sum(column)} of {len(rows)} on {on}"
        for on, column in zip(devices, zip(*scores, strict=True), strict=True)
    ]
    print(f"{', '.join(counts)} caught, in {time.monotonic() - start:.0f} s")
    if given.write:
        _RESULTS.write_text(_page(", ".join(counts), devices, rows, controls))
    return 0 if all(map(all, scores)) and healthy else 1


def _page(score: str, devices: list[str], rows: list[str], controls: list[str]) -> str:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "executorch"))
    head = ["mutant", "operator", "fault", *(f"first wrong on {on}" for on in devices)]
    head += ["stale", "training"]
    return "\n".join(
        [
            "# Mutants: what shadow execution catches",
            "",
            f"Made by `python bench/mutants.py --on {','.join(devices)} --write` ({versions}).",
            "Each mutant is a kernel of ours with one fault, registered under specialised keys so",
            "that the stock runtime runs it in place of its own; one library holds all,",
            "`GRAPHCHECK_MUTANT` picks one. Caught: `validate --shadow` finds instructions wrong,",
            "and all of them are of the mutant's operator; told are the first of them, how much of",
            "it is wrong, and the worst entry's error relative to the largest entry. The last",
            f"columns say what else would have told (on {devices[0]}): the stale-output detector",
            "naming that operator alone, and the first quantity in which training itself parts",
            "from eager.",
            "",
            f"**Caught and named: {score}.**",
            "",
            _cells(head),
            _cells(["---"] * len(head)),
            *rows,
            "",
            "Controls, the same models and libraries without a mutant:",
            "",
            "| model | device | verdict | instructions checked | wrong |",
            "| --- | --- | --- | --- | --- |",
            *controls,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
