"""How long a check takes, against a bare trace and against the stock flow: whole processes.

    python bench/check_vs_stock.py [--rounds 5] [--output bench/results/check_vs_stock.md]

Every round runs the three one after the other, so that a machine that slows down slows all three;
the ratios are taken within a round and their median is quoted. Probes are cached beforehand.

- check: `graphcheck torchvision:NAME --input ...`
- bare trace: a process that imports torch and torchvision, exports non-strict and captures the
  joint graph. A check cannot be faster than this.
- stock flow: import, strict export, joint graph, to_edge, to_executorch; it stops at its first
  fault, as a user would see it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

MODELS = {
    "resnet18": "2,3,64,64",
    "mobilenet_v2": "2,3,64,64",
    "swin_t": "2,3,64,64",
}
LIMITS = {"bare trace": 1.15, "stock flow": 0.70}

_BUILD = """
import torch, torchvision
from torch.export.experimental import _export_forward_backward

class WithLoss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return torch.nn.functional.cross_entropy(self.model(x), y)

torch.manual_seed(0)
model = WithLoss(torchvision.models.get_model({name!r}, weights=None))
inputs = (torch.randn({shape}), torch.arange(2))
"""
_BARE = """
_export_forward_backward(torch.export.export(model, inputs, strict=False))
"""
_STOCK = """
from executorch.exir import to_edge
joint = _export_forward_backward(torch.export.export(model, inputs, strict=True))
to_edge(joint).to_executorch()
"""


def commands(name: str, shape: str) -> dict[str, list[str]]:
    build = _BUILD.format(name=name, shape=shape)
    return {
        "check": [
            sys.executable,
            "-m",
            "graphcheck.cli.main",
            f"torchvision:{name}",
            "--input",
            f"float32[{shape}]",
            "--exit-zero",
            "--quiet",
        ],
        "bare trace": [sys.executable, "-c", build + _BARE],
        "stock flow": [sys.executable, "-c", build + _STOCK],
    }


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def measure(name: str, shape: str, rounds: int) -> dict[str, list[float]]:
    todo = commands(name, shape)
    checked = subprocess.run(todo["check"], capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        raise SystemExit(f"the check of {name} ended with {checked.returncode}: {checked.stderr}")
    bare = subprocess.run(todo["bare trace"], capture_output=True, text=True, check=False)
    if bare.returncode != 0:
        raise SystemExit(f"the bare trace of {name} failed: {bare.stderr[-500:]}")
    times: dict[str, list[float]] = {what: [] for what in todo}
    for _ in range(rounds):
        for what, command in todo.items():
            times[what].append(seconds(command))
        print(name, {what: round(values[-1], 2) for what, values in times.items()}, flush=True)
    return times


def table(results: dict[str, dict[str, list[float]]]) -> str:
    lines = [
        "| model | check s | bare trace s | stock flow s | check / bare | check / stock |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, times in results.items():
        row = [name]
        row += [f"{statistics.median(times[what]):.1f}" for what in times]
        for peer, limit in LIMITS.items():
            ratios = [a / b for a, b in zip(times["check"], times[peer], strict=True)]
            middle = statistics.median(ratios)
            verdict = "" if middle <= limit else f", over the limit of {limit}"
            row.append(f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f}{verdict})")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = {name: measure(name, MODELS[name], options.rounds) for name in options.models}
    text = table(results)
    print(text)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        head = (
            "# check against a bare trace and the stock flow\n\n"
            f"`python bench/check_vs_stock.py --rounds {options.rounds}`: medians of whole "
            "processes; ratios within a round, median (smallest to largest).\n\n"
        )
        options.output.write_text(head + text)


if __name__ == "__main__":
    main()
