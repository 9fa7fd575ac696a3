"""Eager PyTorch beside other processes, with the environment that graphcheck gives its workers.

    python bench/busy_machine.py [--rounds 3] [--write]

What is timed is what validation does most of in eager: a forward and backward pass of torchvision's
SqueezeNet (2x3x64x64) under the noise of rounding. It is run under the user's own environment and
under that of a worker, in turn, on the machine as it is and beside one process for each core that
computes with torch, too. Below 1 the worker's environment is faster. `--write` puts the table into
bench/results/busy_machine.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from graphcheck.process import worker_environment

_RESULT = Path(__file__).resolve().parent / "results" / "busy_machine.md"
_PASSES = """
import sys, time, torch, torchvision
from graphcheck.validate.noise import noise_mode
model = torchvision.models.squeezenet1_1(num_classes=10)
x = torch.randn(2, 3, 64, 64)
def run(sign):
    model.zero_grad()
    with noise_mode(sign, 1):
        model(x).sum().backward()
run(1)
start = time.monotonic()
for number in range(2):
    run(1 - 2 * (number % 2))
print((time.monotonic() - start) / 2)
"""
_OTHERS = """
import torch
a = torch.randn(64, 4096)
while True:
    (a * 1.01).sum()
"""


def _seconds(environment: dict[str, str] | None = None) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _PASSES], env=environment, capture_output=True, check=True, text=True
    )
    return float(done.stdout)


def measure(rounds: int, others: int) -> tuple[float, float, list[float]]:
    """Median seconds of a pass under both environments, and the ratio of each round."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS"):
        os.environ.pop(name, None)
    started = [subprocess.Popen([sys.executable, "-c", _OTHERS]) for _ in range(others)]
    try:
        pairs = [(_seconds(), _seconds(worker_environment())) for _ in range(rounds)]
    finally:
        for process in started:
            process.kill()
            process.wait()
    own, worker = (statistics.median(times) for times in zip(*pairs, strict=True))
    return own, worker, sorted(after / before for before, after in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    lines = [
        "# Eager PyTorch beside other processes",
        "",
        f"Made by `python bench/busy_machine.py --rounds {options.rounds} --write`, {cores} cores.",
        "One pass of SqueezeNet under the noise of rounding; medians, and the median ratio of a",
        "round (smallest to largest).",
        "",
        "| beside | as the user has it, ms | as a worker has it, ms | worker / user |",
        "| --- | --: | --: | --: |",
    ]
    for others, told in ((0, "nothing"), (cores, f"{cores} processes that compute with torch")):
        own, worker, ratios = measure(options.rounds, others)
        lines.append(
            f"| {told} | {own * 1e3:.0f} | {worker * 1e3:.0f} | {statistics.median(ratios):.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
        )
        print(lines[-1], flush=True)
    if options.write:
        _RESULT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
