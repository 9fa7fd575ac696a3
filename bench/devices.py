"""The README's network on several devices: stock, with the drop-in kernels, and rewritten.

`python bench/devices.py [--on host,qemu-aarch64] [--steps 8] [--write]` prints the table, or writes
bench/results/devices.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "tests" / "models" / "seed_cnn.py"
HEAD = """# One network on several devices

Made by `python bench/devices.py --on {on} --steps {steps} --write` (torch {torch}, executorch
{executorch}; one thread, on a shared machine). The network is `tests/models/seed_cnn.py`. Of a
device: the verdict against eager PyTorch, the largest relative difference of its losses to the
first device's, the first step at which they differ by more than 0.1 %, the worst relative error of
a gradient with the weights reset before each step, the time of a step (median and quartiles), the
most memory the runner held (of qemu with the emulator's own), and the arena of the program. qemu's
times are the emulator's.

| program | device | verdict | losses differ | parted at | gradient | step, ms | MiB | arena, MiB |
| --- | --- | --- | --: | --: | --: | --: | --: | --: |
"""


def graphcheck(*words: str) -> dict:
    """The JSON that a command prints, whatever its exit code."""
    command = [sys.executable, "-m", "graphcheck", *words, "--output-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if not done.stdout.startswith("{"):
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def rows(program: str, verdict: dict) -> list[str]:
    """A row for each device."""
    found = []
    for one in verdict["devices"]:
        gap = "" if one["gap"] is None else f"{one['gap']:.1e}"
        parted = "" if one["gap_step"] is None else str(one["gap_step"])
        times = [one[key] * 1e3 for key in ("step_seconds", "step_low", "step_high")]
        cells = (
            program,
            one["name"],
            one["verdict"],
            gap,
            parted,
            f"{float(one['worst_gradient_error']):.1e}",
            f"{times[0]:.0f} ({times[1]:.0f} to {times[2]:.0f})",
            f"{one['peak_bytes'] / 2**20:.1f}",
            f"{one['arena_bytes'] / 2**20:.2f}",
        )
        found.append(f"| {' | '.join(cells)} |\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", default="host,qemu-aarch64")
    parser.add_argument("--steps", default="8")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    common = ("--on", chosen.on, "--steps", chosen.steps)
    lines = rows("stock", graphcheck("validate", str(MODEL), *common))
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "graphcheck", "patch", "build", "--output", folder]
        subprocess.run(build, check=True, capture_output=True)
        library = f"{folder}/libgraphcheck_kernels.so"
        words = ("validate", str(MODEL), "--kernel-library", library, *common)
        lines += rows("drop-in kernels", graphcheck(*words))
        exported = graphcheck("export", str(MODEL), "-o", f"{folder}/seed.pte", *common)
        lines += rows("rewritten", exported["verdict"])
    versions = {name: metadata.version(name) for name in ("torch", "executorch")}
    text = HEAD.format(on=chosen.on, steps=chosen.steps, **versions) + "".join(lines)
    if chosen.write:
        (ROOT / "bench" / "results" / "devices.md").write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
