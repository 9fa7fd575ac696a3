"""What `--rewrite addmm_as_mm` is worth: addmm.out against mm.out and add.out in the runtime.

    python bench/addmm.py [--rounds 9] [--table bench/results/addmm.md]

Both forms of one product with a bias run by turns in one process; the ratio is that of their
processor times, the median of the rounds. The result of each is held to eager float64.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

# n, k, m of [n, k] x [k, m] + [m], and where such a product stands.
SHAPES = (
    (32, 128, 10, "head of a small CNN, batch 32"),
    (64, 512, 512, "hidden layer, batch 64"),
    (394, 768, 768, "vit_b_16 at 224x224, batch 2: attention"),
    (394, 768, 3072, "vit_b_16 at 224x224, batch 2: MLP"),
    (25088, 96, 96, "mvit_v1_b at 16x224x224: first stage"),
)


def programs(n: int, k: int, m: int) -> tuple[list[Any], tuple[Any, ...], Any]:
    import torch
    from executorch.exir import to_edge
    from executorch.runtime import Runtime

    class Whole(torch.nn.Module):
        def forward(self, bias: Any, a: Any, b: Any) -> Any:
            return torch.addmm(bias, a, b)

    class Parts(torch.nn.Module):
        def forward(self, bias: Any, a: Any, b: Any) -> Any:
            return torch.mm(a, b) + bias

    random = torch.Generator().manual_seed(0)
    shapes = ((m,), (n, k), (k, m))
    inputs = tuple(torch.randn(shape, generator=random) for shape in shapes)
    made = []
    for module in (Whole(), Parts()):
        buffer = to_edge(torch.export.export(module, inputs)).to_executorch().buffer
        program = Runtime.get().load_program(buffer)
        # A method does not keep alive what it runs from.
        made.append((program.load_method("forward"), program, buffer))
    return made, inputs, torch.addmm(*(value.double() for value in inputs))


def measure(n: int, k: int, m: int, rounds: int) -> tuple[float, float, float]:
    """Milliseconds of addmm, of mm and add, and the median ratio."""
    made, inputs, exact = programs(n, k, m)
    methods = [method for method, *_ in made]
    for method in methods:
        error = float((method.execute(inputs)[0].double() - exact).abs().max() / exact.abs().max())
        if not error <= 1e-5:
            raise SystemExit(f"a product of {n} x {k} x {m} is off by {error}")
    times: list[list[float]] = []
    for _ in range(rounds):
        pair = []
        for method in methods:
            repeats = max(1, 20_000_000 // (n * k * m))
            start = time.process_time()
            for _ in range(repeats):
                method.execute(inputs)
            pair.append((time.process_time() - start) / repeats)
        times.append(pair)
    whole, parts = (statistics.median(pair[i] for pair in times) for i in (0, 1))
    return 1e3 * whole, 1e3 * parts, statistics.median(pair[0] / pair[1] for pair in times)


def main() -> None:
    import executorch.version

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--table", type=Path, default=Path("bench/results/addmm.md"))
    options = parser.parse_args()
    release = executorch.version.__version__
    lines = [
        f"addmm against mm and add, executorch {release}, float32, one thread",
        "",
        "| n x k x m | where | addmm ms | mm and add ms | addmm / mm and add |",
        "|---|---|---|---|---|",
    ]
    for n, k, m, where in SHAPES:
        whole, parts, ratio = measure(n, k, m, options.rounds)
        lines.append(f"| {n} x {k} x {m} | {where} | {whole:.3g} | {parts:.3g} | {ratio:.1f} |")
        print(lines[-1], flush=True)
    options.table.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
