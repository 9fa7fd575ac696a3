"""ResNet-18 at 2x3x224x224: what the stock program learns, and what graphcheck's program learns.

    python bench/groupnorm_resnet18.py [--steps 30] [--cases stock ...] [--limit SECONDS]
                                       [--kernel-library LIB]
                                       [--results bench/results/groupnorm_resnet18.jsonl]
                                       [--table bench/results/groupnorm_resnet18.md]

Two classes, random fixed images and labels, plain SGD with learning rate 0.01. Cases: `stock` is
GroupNorm lowered as the documentation of ExecuTorch says; `graphcheck` the same model exported by
graphcheck; `batchnorm` keeps ResNet-18's BatchNorm and returns its buffers, so that the running
statistics on the device can be compared, too.

Every case runs in a child process of its own, with one thread and a time limit: the convolutions of
the portable kernels take more than a minute a step. `--kernel-library` runs them by others: a
library made by `graphcheck patch build --fast --op convolution --op convolution_backward` takes
three seconds. A case that has a line in the results is not run again; one that was cut by the limit
keeps the steps it made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RATE = 0.01
STEPS = {"stock": 30, "graphcheck": 30, "batchnorm": 30}
TOLD = {
    "stock": "GroupNorm, stock lowering",
    "graphcheck": "GroupNorm, graphcheck export",
    "batchnorm": "BatchNorm, graphcheck export",
}


def workload(case: str) -> Any:
    import torch
    from torch import nn
    from torchvision.models import resnet18

    from graphcheck.workload.load import from_module

    class WithBuffers(nn.Module):
        """The loss, and every buffer as it is after the step."""

        def __init__(self) -> None:
            super().__init__()
            self.net = resnet18(num_classes=2)

        def forward(self, images: Any, labels: Any) -> Any:
            loss = nn.functional.cross_entropy(self.net(images), labels)
            return loss, *(buffer.clone() for buffer in self.net.buffers())

    torch.manual_seed(0)
    images, labels = torch.randn(2, 3, 224, 224), torch.tensor([0, 1])
    if case == "batchnorm":
        torch.manual_seed(0)
        return from_module(WithBuffers(), (images, labels))
    net = resnet18(num_classes=2, norm_layer=lambda channels: nn.GroupNorm(32, channels))
    return from_module(net, (images,), loss="cross_entropy", targets=labels)


def program(case: str, given: Any, folder: Path) -> Path:
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions
    from graphcheck.runtime.lower import lower

    path = folder / "model.pte"
    if case == "stock":
        path.write_bytes(lower(given).program or b"")
        return path
    result = export_workload(given, ExportOptions(case, output=str(path), prove=False))
    if not result.written:
        raise SystemExit(result.failure)
    return path


def measure(case: str, steps: int, limit: float, library: Path | None) -> dict[str, Any]:
    """Train in the runtime and in eager, compare every step; runs in the child."""
    import torch

    from graphcheck.runtime.devices.interface import device
    from graphcheck.runtime.types import TrainRequest
    from graphcheck.validate.batches import device_batches
    from graphcheck.validate.compare import compare
    from graphcheck.validate.oracle import Oracle

    torch.set_num_threads(1)
    given = workload(case)
    locked, free = (Oracle(given, learning_rate=RATE) for _ in range(2))
    with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
        trace = device("host").train(
            TrainRequest(
                program=program(case, given, Path(folder)),
                batches=device_batches(given),
                steps=steps,
                learning_rate=RATE,
                timeout=limit,
                kernel_libraries=(library,) if library else (),
            )
        )
    found = compare(trace, locked, free, prefix=given.prefix)
    first = found.first_locked
    return {
        "case": case,
        "steps": len(trace.steps),
        "convolutions": "fast" if library else "portable",
        "cut": trace.failure.message if trace.failure else "",
        "losses": [step.loss for step in trace.steps],
        "eager": found.eager_losses,
        "locked_steps": found.locked_steps,
        "worst_gradient": max(found.worst.values(), default=None),
        "first": f"step {first.step}, {first.quantity}: {first.error:.2g}" if first else "",
        "parted": found.first_free.step if found.first_free else None,
        "statistics": statistics(given, trace) if case == "batchnorm" else None,
        "seconds_per_step": sum(s.seconds for s in trace.steps) / max(1, len(trace.steps)),
    }


def statistics(given: Any, trace: Any) -> dict[str, Any]:
    """Worst relative difference of the running statistics after the last step, and the counts.

    Eager sees the weights that the runtime had at each step.
    """
    import numpy
    import torch

    module = given.module
    net = module.get_submodule(f"{given.prefix}net")
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for step in trace.steps:
            for name, array in step.parameters.items():
                parameters[name].copy_(torch.tensor(array))
            module(*given.inputs)
    worst, counts = 0.0, set()
    for (name, eager), device in zip(net.named_buffers(), trace.steps[-1].outputs[1:], strict=True):
        if name.endswith("num_batches_tracked"):
            counts.add((int(device), int(eager)))
            continue
        expected = eager.double().numpy()
        difference = numpy.abs(numpy.asarray(device, dtype=numpy.float64) - expected).max()
        worst = max(worst, float(difference / numpy.abs(expected).max()))
    return {"worst": worst, "counts (device, eager)": sorted(counts), "buffers": len(counts)}


def table(rows: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# ResNet-18 at 2x3x224x224, SGD 0.01, random fixed data",
        "",
        "Made by `python bench/groupnorm_resnet18.py`: the real runtime of the executorch 1.5.1 "
        "wheel on",
        "Linux x86-64, one thread. Gradients are compared with eager PyTorch from the runtime's "
        "own weights",
        "at every step, against the tolerance that rounding calls for (an error is relative to "
        "the largest",
        "entry of its own gradient; the largest are where a ReLU or a pool sits at a kink); `loss` "
        "is that of",
        "free training. `fast` convolutions are those of `graphcheck patch build --fast`, used "
        "to save time.",
        "",
        "| case | convolutions | steps | loss, runtime | loss, eager | gradients "
        "| worst gradient error | s per step |",
        "| --- | --- | ---: | --- | --- | --- | ---: | ---: |",
    ]
    for case in STEPS:
        row = rows.get(case)
        if row is None:
            lines.append(f"| {TOLD[case]} | | NOT RUN | | | | | |")
            continue
        steps = f"{row['steps']}" + (f" (cut: {row['cut']})" if row["cut"] else "")
        same = (
            f"wrong from {row['first']}" if row["first"] else f"right, {row['locked_steps']} steps"
        )
        lines.append(
            f"| {TOLD[case]} | {row.get('convolutions', 'portable')} | {steps} "
            f"| {row['losses'][0]:.4f} -> {row['losses'][-1]:.4f} "
            f"| {row['eager'][0]:.4f} -> {row['eager'][row['steps'] - 1]:.4f} | {same} "
            f"| {row['worst_gradient']:.1e} | {row['seconds_per_step']:.0f} |"
        )
    found = (rows.get("batchnorm") or {}).get("statistics")
    if found:
        counts = ", ".join(
            f"{device} (eager {eager})" for device, eager in found["counts (device, eager)"]
        )
        lines += [
            "",
            f"BatchNorm's running statistics after the last step, from the same weights at each "
            "step: worst relative difference "
            f"{found['worst']:.1e};",
            f"`num_batches_tracked` on the device: {counts}.",
        ]
    for case, row in rows.items():
        losses = " ".join(f"{loss:.4f}" for loss in row["losses"])
        eager = " ".join(f"{loss:.4f}" for loss in row["eager"])
        lines += ["", f"{TOLD[case]}:", "", f"    runtime {losses}", f"    eager   {eager}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--cases", nargs="*", choices=sorted(STEPS), default=list(STEPS))
    parser.add_argument("--limit", type=float, default=7200.0, help="seconds of training, a case")
    parser.add_argument("--results", type=Path, default="bench/results/groupnorm_resnet18.jsonl")
    parser.add_argument("--table", type=Path, default="bench/results/groupnorm_resnet18.md")
    parser.add_argument("--child", choices=sorted(STEPS), help=argparse.SUPPRESS)
    parser.add_argument("--kernel-library", type=Path)
    options = parser.parse_args()
    library = options.kernel_library
    if options.child:
        print(json.dumps(measure(options.child, options.steps, options.limit, library)))
        return
    rows = {}
    if options.results.exists():
        read = map(json.loads, options.results.read_text().splitlines())
        rows = {row["case"]: row for row in read}
    for case in options.cases:
        if case in rows:
            continue
        start = time.monotonic()
        steps = options.steps or STEPS[case]
        done = subprocess.run(
            [sys.executable, __file__, "--child", case, "--steps", str(steps)]
            + ["--limit", str(options.limit)]
            + (["--kernel-library", str(library)] if library else []),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=options.limit + 1800,
        )
        rows[case] = json.loads(done.stdout.splitlines()[-1])
        with options.results.open("a") as stream:
            stream.write(json.dumps(rows[case]) + "\n")
        print(f"{case}: {time.monotonic() - start:.0f} s", flush=True)
        options.table.write_text(table(rows))
    options.table.write_text(table(rows))


if __name__ == "__main__":
    main()
