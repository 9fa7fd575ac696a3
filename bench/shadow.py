"""False alarms, time and memory of shadow execution.

    python bench/shadow.py alarms [--write] [MODEL.py ...]
    python bench/shadow.py cost TARGET [--input SPEC] [--steps N]

`alarms` exports each model (rewriting what the stock runtime has wrong or not at all) and proves it
with every instruction run again in eager; a model that is right must have none that is wrong. The
same for the stock lowering, where it runs: there only kernels known to be wrong may be named.
`cost` does the same with one target, in a process of its own with and without shadow execution
(`one`), and prints times and peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "tests" / "models"
_RESULTS = HERE / "results" / "shadow_alarms.md"


def alarms(files: list[Path], *, write: bool) -> int:
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions
    from graphcheck.options import ValidateOptions
    from graphcheck.validate.run import validate_workload
    from graphcheck.workload.load import load
    from graphcheck.workload.request import WorkloadRequest

    rows, wrong = [], 0
    for file in files:
        line = [file.stem]
        with tempfile.TemporaryDirectory() as folder:
            output = str(Path(folder) / "model.pte")
            for kind in ("exported", "stock"):
                try:
                    workload = load(WorkloadRequest(target=str(file)))
                    if kind == "exported":
                        options = ExportOptions(
                            target=str(file), steps=3, shadow=True, output=output
                        )
                        result = export_workload(workload, options)
                        verdict = result.verdict
                        reason = result.failure
                    else:
                        stock = ValidateOptions(target=str(file), steps=3, shadow=True)
                        verdict = validate_workload(workload, stock)
                        reason = verdict.reason
                except Exception as error:
                    verdict, reason = None, f"{type(error).__name__}: {error}"
                if verdict is None or not verdict.shadow_instructions:
                    line += [f"not run: {' '.join(reason.split())[:90]}", "-", "-"]
                    continue
                ops = sorted({w.op for w in verdict.wrong})
                notes = [n for n in verdict.notes if "NOT CHECKED" in n and "shadow" in n]
                wrong += kind == "exported" and bool(ops)
                told = ", ".join(ops) or "none"
                line += [verdict.verdict, str(verdict.shadow_instructions), told]
                for entry in verdict.wrong:
                    print("   ", kind, entry, flush=True)
                for note in notes:
                    print("   ", note, flush=True)
        rows.append("| " + " | ".join(line) + " |")
        print(rows[-1], flush=True)
    if write:
        _RESULTS.write_text(
            "# Shadow execution on right and wrong programs\n\n"
            "Made by `python bench/shadow.py alarms --write`: three steps, every instruction of\n"
            "the first and the last run again in eager. An exported program must have none wrong.\n"
            "\n| model | exported | instructions | wrong | stock | instructions | wrong |\n"
            "| --- | --- | --- | --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
        )
    return 1 if wrong else 0


def cost(target: str, specs: list[str], steps: int) -> int:
    """Time and memory of proving an exported program, plain and with every instruction."""
    print(f"{target} {' '.join(specs)}, {steps} steps", flush=True)
    times: dict[bool, tuple[float, float]] = {}
    for shadow in (False, True):
        command = [sys.executable, __file__, "one", target, "--steps", str(steps)]
        command += [word for spec in specs for word in ("--input", spec)]
        command += ["--shadow"] if shadow else []
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        times[shadow] = found["prove s"], found["prove CPU s"]
        print("with" if shadow else "without", "--shadow:", found, flush=True)
    ratios = [shadowed / plain for shadowed, plain in zip(times[True], times[False], strict=True)]
    print(f"proving with --shadow takes {ratios[0]:.2f} times as long, CPU {ratios[1]:.2f} times")
    return 0


def one(
    target: str,
    specs: list[str],
    steps: int,
    *,
    shadow: bool,
    libraries: tuple[str, ...] = (),
    timeout: float = 600.0,
) -> int:
    from graphcheck.export import run as export
    from graphcheck.export.types import ExportOptions
    from graphcheck.validate import run as validation
    from graphcheck.workload.load import load
    from graphcheck.workload.request import WorkloadRequest

    workload = load(WorkloadRequest(target=target, inputs=tuple(specs)))
    spent = {}
    prove = validation.validate_workload

    def timed(*given, **named):
        start, used = time.monotonic(), processor_seconds()
        spent["before MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        verdict = prove(*given, **named)
        spent["prove s"] = round(time.monotonic() - start, 1)
        spent["prove CPU s"] = round(processor_seconds() - used, 1)
        return verdict

    validation.validate_workload = timed
    with tempfile.TemporaryDirectory() as folder:
        options = ExportOptions(
            target=target,
            steps=steps,
            shadow=shadow,
            kernel_libraries=libraries,
            timeout=timeout,
            output=str(Path(folder) / "model.pte"),
        )
        result = export.export_workload(workload, options)
    verdict = result.verdict
    if verdict is None:
        sys.exit(result.failure)
    stages = {stage.name: round(stage.seconds, 1) for stage in verdict.stages}
    spent |= {
        "verdict": verdict.verdict,
        "stages s": stages,
        "step s": round(verdict.overhead["bare step s"], 2),
        "program": next((s.detail for s in verdict.stages if s.name == "load"), ""),
        "checked": verdict.shadow_instructions,
        "wrong": [f"{w.instruction} {w.op} {w.error:.1e}" for w in verdict.wrong],
        "shadow": next(s.detail for s in verdict.stages if s.name == "shadow")[:200],
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "runner MiB": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }
    print(json.dumps(spent))
    return 0


def processor_seconds() -> float:
    """What this process and its children that ended used of the processor."""
    own, ended = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("alarms", "cost", "one"))
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--shadow", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--kernel-library", action="append", default=[], help="of `one`")
    parser.add_argument("--timeout", type=float, default=600.0, help="of `one`, seconds of a run")
    given = parser.parse_args()
    if given.what == "cost":
        return cost(given.targets[0], given.input, given.steps)
    if given.what == "one":
        return one(
            given.targets[0],
            given.input,
            given.steps,
            shadow=given.shadow,
            libraries=tuple(given.kernel_library),
            timeout=given.timeout,
        )
    files = [Path(target) for target in given.targets] or sorted(MODELS.glob("*.py"))
    return alarms(files, write=given.write)


if __name__ == "__main__":
    sys.exit(main())
