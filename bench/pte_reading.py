"""Reading a program of about 50 MB, against ExecuTorch's own Python deserialiser; and fuzzing.

    python bench/pte_reading.py --folder /tmp/pte [--rounds 5] [--mutations 60000]
        [--output bench/results/pte_reading.md]

The program is torchvision's ResNet-18 with GroupNorm, lowered for training by the stock flow
(weights 46.8 MB); it is built in the folder when it is not there. Whole processes are measured,
one after the other in each round; ratios are taken within a round and their median is quoted. On
a machine that others use, CPU seconds are the figure to look at. Peak memory is that of the
process (`ru_maxrss`).

- check: `graphcheck model.pte`, import of Python included
- reader: a process that imports `read_pte` and reads the file
- deserialiser: a process that imports `deserialize_pte_binary` of executorch and reads the file
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTATIONS = ROOT / "tests" / "artefacts" / "mutations.py"

_BUILD = """
import sys, torch, torchvision
from torch import nn
from torch.export.experimental import _export_forward_backward
from executorch.exir import to_edge

class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.model(x), y)

torch.manual_seed(0)
torch.set_num_threads(1)
norm = lambda channels: nn.GroupNorm(8, channels)
model = WithLoss(torchvision.models.resnet18(weights=None, norm_layer=norm))
inputs = (torch.randn(2, 3, 64, 64), torch.arange(2))
joint = _export_forward_backward(torch.export.export(model, inputs, strict=False))
open(sys.argv[1], "wb").write(to_edge(joint).to_executorch().buffer)
"""
_TINY = """
import sys, torch
from torch import nn
from torch.export.experimental import _export_forward_backward
from executorch.exir import to_edge

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 1)

    def forward(self, x):
        return self.a(x).mean()

program = torch.export.export(Tiny(), (torch.randn(1, 2),), strict=False)
open(sys.argv[1], "wb").write(to_edge(_export_forward_backward(program)).to_executorch().buffer)
"""
_FORMS = (".2f", ".2f", ".0f")
_READER = """
import sys
from graphcheck.graph.pte import read_pte
print(len(read_pte(sys.argv[1]).method().instructions))
"""
_DESERIALISER = """
import sys
from executorch.exir._serialize._program import deserialize_pte_binary
program = deserialize_pte_binary(open(sys.argv[1], "rb").read()).program
(plan,) = (p for p in program.execution_plan if p.name == "forward")
print(len(plan.chains[0].instructions))
"""


def measure(command: list[str]) -> tuple[float, float, float, str]:
    """Seconds, CPU seconds, peak in MB, and the last line that the process printed."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    lines = printed.strip().splitlines()
    busy = usage.ru_utime + usage.ru_stime
    return seconds, busy, usage.ru_maxrss / 1024, lines[-1] if lines else ""


def built(path: Path, code: str) -> Path:
    if not path.is_file():
        part = path.with_suffix(".part")
        subprocess.run([sys.executable, "-c", code, str(part)], check=True)
        part.rename(path)
    return path


def reading(path: Path, rounds: int) -> list[str]:
    commands = {
        "check": [sys.executable, "-m", "graphcheck", str(path), "--opset", "executorch-1.5.1"],
        "reader": [sys.executable, "-c", _READER, str(path)],
        "deserialiser": [sys.executable, "-c", _DESERIALISER, str(path)],
    }
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    counts = {}
    for _ in range(rounds):
        for name, command in commands.items():
            *measured, counts[name] = measure(command)
            taken[name].append(tuple(measured))
    if not rounds:
        return []
    assert counts["reader"] == counts["deserialiser"], counts
    rows = [
        f"File: {path.stat().st_size / 1e6:.1f} MB, {counts['reader']} instructions. "
        f"{rounds} rounds, medians (smallest to largest).",
        "",
        "| process | seconds | CPU seconds | peak MB | CPU / deserialiser | peak / deserialiser |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, own in taken.items():
        theirs = taken["deserialiser"]
        times = [a[1] / b[1] for a, b in zip(own, theirs, strict=True)]
        peaks = [a[2] / b[2] for a, b in zip(own, theirs, strict=True)]
        columns = [spread([entry[i] for entry in own], form) for i, form in enumerate(_FORMS)]
        ratios = [spread(times, ".3f"), spread(peaks, ".3f")]
        rows.append(f"| {' | '.join((name, *columns, *ratios))} |")
    return rows


def spread(values: list[float], form: str) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def fuzzing(path: Path, count: int) -> list[str]:
    head = ("seed", "mutations", "programs", "refused", "other errors", "CPU s", "slowest s")
    rows = [f"| {' | '.join((*head, 'peak MB'))} |", f"|{' --- |' * (len(head) + 1)}"]
    share = count // 4
    for seed in range(11, 15):
        done = subprocess.run(
            [sys.executable, str(MUTATIONS), str(seed), str(share), str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        told = json.loads(done.stdout)
        outcomes = told["outcomes"]
        other = share - outcomes.get("program", 0) - outcomes.get("refused", 0)
        rows.append(
            f"| {seed} | {share} | {outcomes.get('program', 0)} | {outcomes.get('refused', 0)} "
            f"| {other} | {told['seconds']:.1f} | {told['slowest']:.3f} | {told['peak_mb']:.0f} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mutations", type=int, default=60_000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    large = built(options.folder / "resnet18_groupnorm.pte", _BUILD)
    tiny = built(options.folder / "tiny.pte", _TINY)
    command = f"--rounds {options.rounds} --mutations {options.mutations}"
    lines = [
        "# Reading programs",
        "",
        f"`python bench/pte_reading.py --folder /tmp/pte {command}`: whole processes; ratios "
        "within a round.",
        "",
        *reading(large, options.rounds),
        "",
        "Fuzzing (`tests/artefacts/mutations.py`: bits, bytes, edge values, offsets to anywhere, "
        "copies, cuts of a training program of "
        f"{tiny.stat().st_size} bytes, in a process that may map 400 MB; read, judged, listed, "
        "planned):",
        "",
        *fuzzing(tiny, options.mutations),
    ]
    text = "\n".join(lines) + "\n"
    if options.output:
        options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
