"""How much memory a proof takes: `graphcheck export` of torchvision's models, by their weights.

    python bench/proof_memory.py [--models vit_b_16 ...] [--kernel-library LIB] [--write]

Private memory (anonymous and shared pages) of the command and all its children, sampled four times
a second; pages of files, which may leave at any time, do not count. The peer is the size of the
weights: a model in eager training holds them and their gradients, 2 times.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from zoo import common

TABLE = Path(__file__).parent / "results" / "proof_memory.md"
MIB = 2**20


def children(root: int) -> list[int]:
    """The process and all below it."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [root]
    while left:
        found.append(left.pop())
        left += below.get(found[-1], [])
    return found


def private_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    sizes = dict(line.split(":", 1) for line in lines)
    return sum(int(sizes.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


def peak_of(arguments: list[str]) -> tuple[int, int]:
    """Exit code and the most private memory of a graphcheck command, in bytes."""
    with subprocess.Popen(
        [sys.executable, "-m", "graphcheck", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(map(private_bytes, children(process.pid))))
            time.sleep(0.25)
    return process.returncode, peak


def weights_of(name: str) -> int:
    """Bytes of the parameters that are trained: those of the model for ten classes."""
    import torchvision

    model = torchvision.models.get_model(name, num_classes=10)
    return sum(parameter.nbytes for parameter in model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=["resnet50", "vit_b_16", "vgg16"])
    parser.add_argument("--kernel-library", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    library = ["--kernel-library", options.kernel_library] if options.kernel_library else []
    with tempfile.TemporaryDirectory() as folder:
        _, base = peak_of(["check", "torchvision:squeezenet1_1"])
        rows = []
        for name in options.models:
            program = str(Path(folder) / "model.pte")
            code, peak = peak_of(["export", *common(name), *library, "-o", program])
            weights = weights_of(name)
            rows.append(
                f"| {name} | {weights / MIB:.0f} | {code} | {peak / MIB:.0f} "
                f"| {(peak - base) / weights:.1f} |"
            )
            print(rows[-1], flush=True)
    lines = [
        "# Memory of a proof",
        "",
        "`python bench/proof_memory.py`: private memory of `graphcheck export` (3 steps, every",
        f"gradient compared) and its children, at most. {base / MIB:.0f} MiB of it are torch and",
        "ExecuTorch themselves: what `graphcheck check` of a small model takes. `times weights` is",
        "the rest over the size of the weights; weights and gradients alone are 2.",
        "",
        "| model | weights, MiB | exit code | peak, MiB | times weights |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]
    if options.write:
        TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
