"""Speed of our kernels against those they replace, and of fast convolutions against eager PyTorch.

    python bench/kernels.py [--write]

Every pair is measured alternately in one process, one thread; a ratio is that of the best times.
Below 1 ours is faster. A stock kernel that adds to memory nobody cleared does less than its task:
it is measured a second time with a `memset` of its output before it. `--write` puts the tables into
bench/results/kernels.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "patch" / "kernels"))

import torch  # noqa: E402
from calling import CALLER, Kernels, dirty  # noqa: E402

from graphcheck.patch.library.build import build_library  # noqa: E402
from graphcheck.runtime.libraries import find_libraries  # noqa: E402
from graphcheck.runtime.toolchain import compile_library, find_compiler  # noqa: E402

ROUNDS = 7
NOTHING = torch.empty(0, dtype=torch.uint8)


def _pool(batch: int, channels: int, side: int, kernel: int, stride: int, dtype: Any) -> Any:
    x = torch.randn(batch, channels, side, side).to(dtype)
    y, indices = torch.nn.functional.max_pool2d(
        x, kernel, stride, kernel // 2 if kernel == 3 else 0, return_indices=True
    )
    windows = [[kernel], [stride], [kernel // 2 if kernel == 3 else 0], [1], False]
    return [torch.randn_like(y), x, *windows, indices], [dirty(like=x)]


def _conv(batch: int, ci: int, co: int, k: int, s: int, side: int, dtype: Any) -> tuple[Any, Any]:
    x, w = torch.randn(batch, ci, side, side).to(dtype), torch.randn(co, ci, k, k).to(dtype)
    rest = [[s, s], [k // 2, k // 2], [1, 1], False, [0, 0], 1]
    y = torch.ops.aten.convolution(x, w, None, *rest)
    forward = ([x, w, None, *rest], [dirty(like=y)])
    gradient = [torch.randn_like(y), x, w, None, *rest, [True, True, False]]
    return forward, (gradient, [dirty(like=x), dirty(like=w), NOTHING])


POOLS = (
    (8, 64, 112, 3, 2),  # ResNet
    (2, 64, 112, 2, 2),  # VGG, image of 112
    (2, 512, 14, 2, 2),
    (8, 192, 28, 3, 1),  # GoogLeNet's branches
    (8, 64, 55, 3, 2),  # AlexNet
    (8, 64, 32, 2, 2),  # small nets for images of 64 and 32
    (2, 16, 64, 2, 2),
    (32, 256, 8, 2, 2),
)
"""Max pooling: batch, channels, side, kernel, stride."""

UNCLEARED = ("aten::max_pool2d_with_indices_backward.grad_input",)
"""Stock kernels that leave out to clear what they add to."""


def replaced() -> list[tuple[str, str, Any, Any]]:
    """Kernels that replace one of the runtime: name, what on, inputs, outputs."""
    cases: list[tuple[str, str, Any, Any]] = []
    (op,) = UNCLEARED
    for shape in POOLS:
        cases.append((op, str(shape), *_pool(*shape, torch.float32)))
    cases.append((op, "(8, 64, 32, 2, 2) bfloat16", *_pool(8, 64, 32, 2, 2, torch.bfloat16)))
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype)[6:]
        x = torch.randn(8, 64, 28, 28).to(dtype)
        c = torch.randn(64).to(dtype)
        g = dirty(8, 32, dtype=dtype)
        sizes = [8, 64, 784, 32, 1e-5]
        outs = [dirty(like=x), g, g.clone()]
        cases.append(("aten::native_group_norm.out", f"8x64x28x28 {name}", [x, c, c, *sizes], outs))
        outs = [dirty(like=x), dirty(64, dtype=dtype), dirty(64, dtype=dtype)]
        op = "aten::_native_batch_norm_legit.no_stats_out"
        cases.append((op, f"8x64x28x28 {name}", [x, c, c, True, 0.1, 1e-5], outs))
        t = torch.randn(512, 192).to(dtype)
        r = torch.randn(192).to(dtype)
        outs = [dirty(like=t), dirty(512, 1, dtype=dtype), dirty(512, 1, dtype=dtype)]
        cases.append(
            ("aten::native_layer_norm.out", f"512x192 {name}", [t, [192], r, r, 1e-5], outs)
        )
        outs = [dirty(like=x), dirty(like=x, dtype=torch.bool)]
        cases.append(("aten::native_dropout.out", f"8x64x28x28 {name}", [x, 0.5, True], outs))
    x = torch.randn(8, 64, 28, 28)
    padded = [dirty(8, 64, 30, 30)]
    cases.append(("aten::constant_pad_nd.out", "8x64x28x28 by 1", [x, [1, 1, 1, 1], 0.0], padded))
    half = torch.bfloat16
    a, b, s = (torch.randn(*n).to(half) for n in ((32, 512), (512, 256), (256,)))
    cases.append(
        ("aten::addmm.out", "32x512x256 bf16", [s, a, b, 1, 1], [dirty(32, 256, dtype=half)])
    )
    table, rows = torch.zeros(1000, 64).to(half), torch.randint(0, 1000, (512,))
    values = torch.randn(512, 64).to(half)
    inputs = [table, [rows], values, True]
    cases.append(("aten::index_put.out", "512 rows of 1000x64 bf16", inputs, [dirty(like=table)]))
    forward, backward = _conv(2, 32, 32, 3, 1, 16, half)
    cases.append(("aten::convolution.out", "2x32x16x16, 3x3 bf16", *forward))
    cases.append(("aten::convolution_backward.out", "2x32x16x16, 3x3 bf16", *backward))
    return cases


LAYERS = (
    ("conv1 7x7/2", 3, 64, 7, 2, 64),
    ("layer1 3x3", 64, 64, 3, 1, 16),
    ("layer2.0 3x3/2", 64, 128, 3, 2, 16),
    ("layer2.0 1x1/2", 64, 128, 1, 2, 16),
    ("layer2 3x3", 128, 128, 3, 1, 8),
    ("layer3.0 3x3/2", 128, 256, 3, 2, 8),
    ("layer3 3x3", 256, 256, 3, 1, 4),
    ("layer4.0 3x3/2", 256, 512, 3, 2, 4),
    ("layer4 3x3", 512, 512, 3, 1, 2),
    ("layer1 3x3, image of 224", 64, 64, 3, 1, 56),
    ("layer4 3x3, image of 224", 512, 512, 3, 1, 7),
)
"""Convolutions of ResNet-18: name, channels, kernel, stride, side. The last two: larger images."""


def _best(runs: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    best = {name: float("inf") for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], run())
    return best


def measure_replaced(kernels: Kernels) -> list[str]:
    """Rows of the first table."""
    lines = [
        "| kernel | on | ours, us | stock, us | ours / stock | ours / stock that clears |",
        "| --- | --- | --: | --: | --: | --: |",
    ]
    for op, what, inputs, outputs in replaced():

        def run(
            fallback: bool, clear: bool = False, op=op, what=what, inputs=inputs, outputs=outputs
        ) -> float:
            done = kernels.call(op, inputs, outputs, fallback=fallback, repeats=5, clear=clear)
            assert done.code == 0, (op, what, kernels.said()[-300:])
            return done.seconds

        runs = {"ours": lambda: run(False), "stock": lambda: run(True)}
        if op in UNCLEARED:
            runs["clearing"] = lambda: run(True, clear=True)
        best = _best(runs, ROUNDS)
        ours, stock = best["ours"] * 1e6, best["stock"] * 1e6
        cleared = f"{best['ours'] / best['clearing']:.2f}" if op in UNCLEARED else ""
        lines.append(
            f"| `{op[6:]}` | {what} | {ours:.1f} | {stock:.1f} | {ours / stock:.2f} | {cleared} |"
        )
        print(lines[-1], flush=True)
    return lines


def measure_fast(kernels: Kernels, batches: tuple[int, ...]) -> list[str]:
    """Rows of the second table."""
    lines = [
        "| layer | batch | forward, ms | stock / ours | ours / eager | backward, ms | stock / ours "
        "| ours / eager |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for batch in batches:
        for name, *layer in LAYERS:
            cells = [name, str(batch)]
            calls = zip(
                ("convolution", "convolution_backward"),
                _conv(batch, *layer, torch.float32),
                strict=True,
            )
            for op, (inputs, outputs) in calls:
                eager = getattr(torch.ops.aten, op)

                def ours(op=op, inputs=inputs, outputs=outputs) -> float:
                    done = kernels.call(f"aten::{op}.out", inputs, outputs, repeats=3)
                    assert done.code == 0, kernels.said()[-300:]
                    return done.seconds

                def in_eager(eager=eager, inputs=inputs) -> float:
                    times = []
                    for _ in range(3):
                        start = time.perf_counter()
                        eager(*inputs)
                        times.append(time.perf_counter() - start)
                    return min(times)

                best = _best({"ours": ours, "eager": in_eager}, ROUNDS)
                # The stock loop takes seconds; once is enough for a ratio of a hundred.
                stock = kernels.call(f"aten::{op}.out", inputs, outputs, fallback=True).seconds
                cells += [
                    f"{best['ours'] * 1e3:.2f}",
                    f"{stock / best['ours']:.0f}",
                    f"{best['ours'] / best['eager']:.2f}",
                ]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Build both libraries, measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--batch", type=int, nargs="*", default=[2, 8])
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        caller = Path(work) / "caller.so"
        compile_library(find_compiler(), [CALLER], caller, find_libraries(), ["-O2"])
        libraries = {
            fast: build_library(
                Path(work) / str(fast),
                ops=("convolution", "convolution_backward") if fast else (),
                fast=fast,
            ).library
            for fast in (False, True)
        }
        first = measure_replaced(Kernels(caller, [libraries[False]]))
        second = measure_fast(Kernels(caller, [libraries[True]]), tuple(options.batch))
    if options.write:
        versions = f"torch {torch.__version__}, executorch {find_libraries().version}, one thread"
        text = (
            "# Speed of the kernels\n\n"
            f"Made by `python bench/kernels.py --write` ({versions}; best of {ROUNDS} alternating "
            "rounds on a shared machine).\n\n"
            "## Against the kernels they replace\n\n"
            "Below 1 ours is faster. The stock kernel of max pooling's gradient adds to memory "
            "that nobody\ncleared, which is its fault; the last column is against the same kernel "
            "after a `memset` of its\noutput, which is the whole task.\n\n"
            + "\n".join(first)
            + "\n\n## Fast convolutions (`graphcheck patch build --fast`)\n\n"
            "ResNet-18's layers in float32. `stock / ours` is how many times faster ours is.\n\n"
            + "\n".join(second)
            + "\n"
        )
        (HERE / "results" / "kernels.md").write_text(text)


if __name__ == "__main__":
    main()
