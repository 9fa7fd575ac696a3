"""The kernel library built against each release of ExecuTorch, and run in that release's runtime.

    python bench/library_releases.py --environment 1.0.1=SITE[:SITE...] [...] [--write]

An environment is as in `releases.py`. The library is compiled against the headers of the release
and loaded beside its Python bindings; the probes of the operators it replaces and the training of
`seed_cnn` are measured without and with it, in child processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "bench" / "results" / "library_releases.md"
PARTS = {
    "max_pool2d_with_indices_backward": "max_pool2d_backward",
    "native_dropout": "native_dropout_scale",
    "native_group_norm": "group_norm_variance",
    "native_batch_norm": "batch_norm_variance",
    "addmm": "addmm_half",
    "index_put": "index_put_half",
    "sort": "",
    "convolution_backward": "convolution_backward_half",
}
"""Kernels by op, with the probe that tells them from the runtime's own."""


def child(library: str) -> None:
    """Prints a line of JSON for each probe and the model."""
    import ctypes

    sys.path += [str(ROOT), str(ROOT / "bench")]
    import torch  # noqa: F401

    # The library takes the registry of the bindings, which nothing else exports in a wheel.
    flags = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    from executorch.extension.pybindings import _portable_lib  # noqa: F401

    sys.setdlopenflags(flags)
    if library:
        ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    from releases_child import model, probe

    for name in filter(None, PARTS.values()):
        try:
            print(json.dumps([name, *probe(name)]), flush=True)
        except Exception as error:
            print(json.dumps([name, "not run", str(error)[:200]]), flush=True)
    print(json.dumps(["seed_cnn", *model("seed_cnn")]), flush=True)


def measure(path: str, library: str) -> dict[str, tuple[str, str]]:
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "--child", library],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    found = {name: (outcome, figure) for name, outcome, figure in lines}
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()]
        found["ended"] = ("", last[-1][:160] if last else f"code {done.returncode}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", action="append", default=[], metavar="VERSION=PATH")
    parser.add_argument("--child")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.child is not None:
        child(given.child)
        return
    from graphcheck.patch.library.build import build_library

    names = [*filter(None, PARTS.values()), "seed_cnn"]
    lines = [f"| release | built | {' | '.join(names)} |", "| --- " * (len(names) + 2) + "|"]
    for text in given.environment:
        version, _, path = text.partition("=")
        site = next(p for p in path.split(":") if (Path(p) / "executorch" / "include").is_dir())
        with tempfile.TemporaryDirectory() as folder:
            target = str(Path(site) / "executorch")
            built = build_library(Path(folder), ops=tuple(PARTS), target=target).library
            rows = [measure(path, ""), measure(path, str(built))]
        cells = []
        for name in names:
            before, after = (row.get(name, ("not run", ""))[0] for row in rows)
            cells.append(f"{before} -> {after}")
        note = rows[1].get("ended", ("", ""))[1]
        if "registration failed" in note:
            note = "not run, its bindings end when they are loaded for another library to find"
        lines.append(f"| {version} | yes{': ' + note if note else ''} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
        for row in rows:
            for name, (outcome, figure) in row.items():
                print("   ", name, outcome, figure, flush=True)
    if given.write:
        PAGE.write_text(
            "# The kernel library on other releases\n\n"
            "Made by `python bench/library_releases.py --environment VERSION=SITE ... --write`:\n"
            "compiled against the headers of each release's wheel, loaded beside its Python\n"
            "bindings; without -> with the library. Where the bindings take no other library, it\n"
            "was compiled and linked only. Half types need temporary memory, which the bindings\n"
            "of 0.6 and 0.7 do not give a program (`Module` in C++ does): error 0x21 there.\n\n"
            + "\n".join(lines)
            + "\n"
        )


if __name__ == "__main__":
    main()
