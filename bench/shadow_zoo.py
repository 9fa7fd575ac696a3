"""False alarms of shadow execution over torchvision's models.

    python bench/shadow_zoo.py [MODEL ...] [--steps 2] [--minutes N] [--kernel-library LIB]

Each model is exported as by `bench/zoo.py` and proven with every instruction of its first and last
step run again in eager, in a child process (`bench/shadow.py one`). A model that trains right must
have no wrong instruction. Every result is a line of bench/results/shadow_zoo.jsonl; a model that
has one is not run again, and after `--minutes` no further one is begun. Convolutions run by the
portable kernels; `--kernel-library` runs them by others (`graphcheck patch build --fast`), and the
row says so: then it is these kernels whose convolutions were checked, not the runtime's own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from zoo import shape_of

HERE = Path(__file__).resolve().parent
_LINES = HERE / "results" / "shadow_zoo.jsonl"
_TABLE = HERE / "results" / "shadow_zoo.md"
# The cheapest first.
_MODELS = (
    *("squeezenet1_1", "alexnet", "mobilenet_v3_small", "vit_b_16", "shufflenet_v2_x1_0"),
    *("resnet18", "mnasnet1_0", "lraspp_mobilenet_v3_large", "regnet_y_400mf", "mobilenet_v2"),
    *("swin_t", "googlenet", "efficientnet_b0", "convnext_tiny", "swin_v2_t", "r3d_18"),
    *("resnet50", "densenet121"),
)


def run(name: str, steps: int, timeout: float, library: str) -> dict[str, Any]:
    """The figures of one model, or why there are none."""
    command = [sys.executable, str(HERE / "shadow.py"), "one", f"torchvision:{name}"]
    command += ["--input", f"float32[{shape_of(name)}]", "--steps", str(steps), "--shadow"]
    command += ["--timeout", str(timeout)]
    command += ["--kernel-library", library] if library else []
    row: dict[str, Any] = {"model": name, "input": shape_of(name), "steps": steps}
    row["convolutions"] = "fast" if library else "portable"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {**row, "failed": f"no end after {timeout:.0f} s"}
    if done.returncode:
        return {**row, "failed": (done.stderr.strip().splitlines() or ["no answer"])[-1][:300]}
    return {**row, **json.loads(done.stdout.splitlines()[-1])}


def read() -> dict[str, dict[str, Any]]:
    if not _LINES.is_file():
        return {}
    rows = (json.loads(line) for line in _LINES.read_text().splitlines() if line.strip())
    return {row["model"]: row for row in rows}


def table(rows: dict[str, dict[str, Any]]) -> str:
    ran = {name: row for name, row in rows.items() if "failed" not in row}
    silent = sum(not row["wrong"] for row in ran.values())
    total = sum(row["checked"] for row in ran.values())
    lines = [
        "# Shadow execution over torchvision's models",
        "",
        "Made by `python bench/shadow_zoo.py`: each model as graphcheck exports it, every",
        "instruction of the first and the last step run again in eager, on the host. `CPU` is the",
        "processor time of the whole proof, peak the memory of the process with the lowering.",
        "Convolutions: the runtime's portable kernels, or `fast`, those of `graphcheck patch build",
        "--fast` in their place (only to save time; then the portable ones were not checked).",
        "",
        f"**{len(ran)} models, {total} instructions checked, {silent} models with none wrong.**",
        "",
        "| model | input | program | convolutions | verdict | checked | wrong | shadow "
        "| CPU | peak |",
        "| --- | --- | --- | --- | --- | ---: | --- | --- | ---: | ---: |",
    ]
    for name in sorted(rows):
        row = rows[name]
        if "failed" in row:
            told = " ".join(row["failed"].split())[:160]
            lines.append(
                f"| {name} | {row['input']} | - | {row.get('convolutions', 'portable')} "
                f"| not run: {told} | - | - | - | - | - |"
            )
            continue
        lines.append(
            f"| {name} | {row['input']} | {row['program']} "
            f"| {row.get('convolutions', 'portable')} | {row['verdict']} | {row['checked']} "
            f"| {'; '.join(row['wrong']) or 'none'} | {row['shadow']} | {row['prove CPU s']:.0f} s "
            f"| {row['peak MiB']} MiB |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--timeout", type=float, default=1800.0)
    parser.add_argument("--kernel-library", default="", help="other convolutions, to save time")
    options = parser.parse_args()
    rows, end = read(), time.monotonic() + 60 * options.minutes
    for name in options.models or _MODELS:
        if name in rows or time.monotonic() > end:
            continue
        rows[name] = run(name, options.steps, options.timeout, options.kernel_library)
        with _LINES.open("a") as stream:
            stream.write(json.dumps(rows[name]) + "\n")
        _TABLE.write_text(table(rows))
        print(name, {k: rows[name].get(k) for k in ("verdict", "checked", "wrong", "failed")})
    _TABLE.write_text(table(rows))
    return 1 if any(row.get("wrong") for row in rows.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
