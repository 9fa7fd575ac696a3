"""Synthetic source trees, written for these tests, and what they compute."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
EXECUTORCH = HERE / "executorch_tree"
NNTRAINER = HERE / "nntrainer_tree"

WRONG = {
    "max_pool2d_with_indices_backward": ["30"],
    "native_dropout": ["1"],
    "native_group_norm": ["79.0569382"],
    "native_layer_norm": ["79.0569458", "79.0569458"],
    "native_batch_norm": ["79.0569382"],
    "addmm": ["256", "256"],
    "convolution": ["256"],
    "cumsum": ["256"],
    "var": ["0.5"],
    "native_layer_norm_half": ["-0.333984375"],
    "sum_one_dim": ["0"],
    "flip": ["3"],
    "sgd_half_parameters": ["0"],
    "sgd_takes_float": ["1"],
}
"""What the kernels of the tree compute as they are, by the patch that mends them."""

RIGHT = {
    "max_pool2d_with_indices_backward": ["2"],
    "native_dropout": ["4"],
    "native_group_norm": ["0.999920011"],
    "native_layer_norm": ["0.999920011", "0.999920011"],
    "native_batch_norm": ["0.999920011"],
    "addmm": ["4096", "4096"],
    "convolution": ["4096"],
    "cumsum": ["4096"],
    "var": ["1"],
    "native_layer_norm_half": ["-0.99609375"],
    "sum_one_dim": ["2"],
    "flip": ["1"],
    "sgd_half_parameters": ["1"],
    "sgd_takes_float": ["1"],
}


def copy_of(tree: Path, to: Path) -> Path:
    shutil.copytree(tree, to)
    return to


def snapshot(root: Path) -> dict[str, str]:
    """Every file of a tree with the hash of its bytes."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def computed(root: Path, program: Path) -> dict[str, list[str]]:
    """Compile the tree's main.cpp without a warning and run it: values by name."""
    done = subprocess.run(
        [
            *("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{root}"),
            *("-o", str(program), str(root / "main.cpp")),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    out = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=True)
    values: dict[str, list[str]] = {}
    for line in out.stdout.splitlines():
        name, value = line.split()
        values.setdefault(name, []).append(value)
    return values
