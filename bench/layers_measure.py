"""What does the stock runtime do with the one-op graphs nobody has measured yet?

    python bench/layers_measure.py CASES_FOLDER --output bench/layers_measured.json

CASES_FOLDER is that of `layers_static.py`. Every case without a row in its `layers_expected.json`
is lowered the stock way (`to_edge` again without the IR check where that refuses), trained for two
steps in the native runner and compared with eager, gradient by gradient. The output holds one row
a case and is written after each: a run that was ended goes on where it was.

Cases run in batches, a process each, so that torch is imported once a batch. A case that takes its
process down, or does not end, is an answer; the batch goes on after it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from layers_static import case_module, load_cases

STEPS = 2
_PATH = re.compile(r"/(?:[^\s():]+/)+(?=[^\s():/]+\.py)")
"""Folders before the name of a source file."""


def measure_case(case: dict[str, Any]) -> dict[str, Any]:
    """Lower, train and compare one case: its `outcome` and what it rests on."""
    from graphcheck.options import ValidateOptions
    from graphcheck.runtime.lower import lower
    from graphcheck.validate.run import validate_workload
    from graphcheck.workload.types import Workload

    module, inputs = case_module(case)
    workload = Workload(module=module, inputs=inputs, root_type="Case")
    lowered = lower(workload, retry_without_ir_check=True)
    row: dict[str, Any] = {
        "ir_check": None if lowered.joint is None else "pass" if lowered.ir_checked else "fail"
    }
    if lowered.traced is not None and lowered.traced.strict:
        row["strict"] = True
    if lowered.failure is not None:
        return {**row, "outcome": _lowering(lowered.stages[-1].name, lowered.failure)}
    row["missing"] = sorted({i.op for i in lowered.instructions if "::" in i.op} - _registered())
    options = ValidateOptions(target="Case", steps=STEPS, timeout=120.0)
    verdict = validate_workload(workload, options, lowered=lowered)
    errors = verdict.worst_gradient_errors
    row["reason"] = _PATH.sub("", verdict.reason)
    row["gradients"] = len(errors)
    row["worst_grad_err"] = _worst(errors.values())
    row["stale"] = sorted({s.op for s in verdict.stale if s.caused_by is None})
    row["steps"] = verdict.steps
    if verdict.first_wrong is not None:
        row["first_wrong"] = verdict.first_wrong.op
    return {**row, "outcome": _outcome(verdict, row["missing"], bool(case.get("random")))}


def _registered() -> set[str]:
    """Kernels of the stock runtime."""
    import torch  # noqa: F401  (before any pybinding of ExecuTorch)
    from executorch.extension.pybindings import portable_lib

    return set(portable_lib._get_operator_names())


def _lowering(stage: str, failure: Any) -> str:
    if stage == "export":
        return "export error"
    if stage == "joint":
        return "joint export error"
    return "missing out variant" if "no out variant" in failure.message else "lowering error"


def _outcome(verdict: Any, missing: list[str], random: bool) -> str:
    if verdict.steps == 0:
        return "missing kernel" if missing else "runtime error"
    difference = verdict.first_locked or verdict.first_free
    if difference is None and verdict.verdict == "match":
        return "ran (random)" if random else "right"
    if difference is None:
        return verdict.verdict
    if not math.isfinite(difference.runtime):
        return "NaN"
    return "wrong loss" if difference.quantity == "loss" else "wrong grad"


def _worst(errors: Any) -> float | str | None:
    """The largest error; `inf` and `nan` as words, which JSON has no numbers for."""
    values = list(errors)
    worst = math.nan if any(math.isnan(v) for v in values) else max(values, default=None)
    return worst if worst is None or math.isfinite(worst) else str(worst)


# The child: one batch


def run_batch(folder: Path, names: list[str], seconds: int) -> None:
    """Measure `names`, one JSON line each; a case that does not end is ended with the process."""
    import torch

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cases = {f"{case['group']}/{case['name']}": case for case in load_cases(folder)[0]}
    for name in names:
        signal.alarm(seconds)
        start = time.monotonic()
        try:
            with contextlib.redirect_stdout(sys.stderr):
                row = measure_case(cases[name])
        except Exception as error:
            row = {"outcome": "not measured", "reason": f"{type(error).__name__}: {error}"[:400]}
        row["seconds"] = round(time.monotonic() - start, 1)
        signal.alarm(0)
        answers.write(json.dumps({"name": name, **row}) + "\n")
        answers.flush()


# The parent


class _Rows:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.rows: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def add(self, name: str, row: dict[str, Any]) -> None:
        with self.lock:
            self.rows[name] = row
            draft = self.path.with_suffix(".tmp")
            draft.write_text(json.dumps(self.rows, indent=1, sort_keys=True) + "\n")
            draft.replace(self.path)
            print(f"{len(self.rows):4d} {name}: {row['outcome']}", file=sys.stderr, flush=True)


def _batch(rows: _Rows, names: list[str], options: argparse.Namespace) -> None:
    """Run `names` in child processes until each has an answer."""
    left = list(names)
    while left:
        command = [sys.executable, __file__, str(options.cases), "--seconds", str(options.seconds)]
        for name in left:
            command += ["--case", name]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                row = json.loads(line)
                name = row.pop("name")
                rows.add(name, row)
                left.remove(name)
        if left:
            late = child.returncode == -signal.SIGALRM
            reason = (
                f"no end after {options.seconds} s"
                if late
                else f"the process ended with {child.returncode}"
            )
            rows.add(left.pop(0), {"outcome": "hang" if late else "crash", "reason": reason})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", type=Path, help="folder with layers.py and layers_expected.json")
    parser.add_argument("--output", type=Path, default=Path("bench/layers_measured.json"))
    parser.add_argument("--only", action="append", default=[], help="prefix of group/name")
    parser.add_argument("--expected", action="store_true", help="measure the expected ones, too")
    parser.add_argument("--batch", type=int, default=40, help="cases of one process")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=int, default=300, help="time limit of one case")
    parser.add_argument("--case", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        run_batch(options.cases, options.case, options.seconds)
        return 0
    cases, expected = load_cases(options.cases)
    rows = _Rows(options.output)
    wanted = [
        name
        for case in cases
        if (name := f"{case['group']}/{case['name']}") not in rows.rows
        and (options.expected or name not in expected)
        and (not options.only or name.startswith(tuple(options.only)))
    ]
    batches = [wanted[at : at + options.batch] for at in range(0, len(wanted), options.batch)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda names: _batch(rows, names, options), batches))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
