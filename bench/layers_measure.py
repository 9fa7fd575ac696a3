"""What does the stock runtime do with the one-op graphs nobody has measured yet?

    python bench/layers_measure.py CASES_FOLDER --output bench/layers_measured.json

CASES_FOLDER is that of `layers_static.py`. Every case without a row in its `layers_expected.json`
is lowered the stock way (`to_edge` again without the IR check where that refuses), trained for two
steps in the native runner and compared with eager, gradient by gradient. A run that was
ended goes on where it was.
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import Any

from layers_batches import Rows, run_all, run_batch
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
        run_batch(measure_case, options.cases, options.case, options.seconds)
        return 0
    cases, expected = load_cases(options.cases)
    rows = Rows(options.output)
    wanted = [
        name
        for case in cases
        if (name := f"{case['group']}/{case['name']}") not in rows.rows
        and (options.expected or name not in expected)
        and (not options.only or name.startswith(tuple(options.only)))
    ]
    run_all(__file__, options.cases, rows, wanted, options.batch, options.jobs, options.seconds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
