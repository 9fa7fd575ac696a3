"""torchvision's detectors: how far the joint export goes, and whether what it allows trains right.

    python bench/detection.py [--models ssd300_vgg16 ...] [--kernel-library LIB]
                              [--results bench/results/detection.jsonl]
                              [--table bench/results/detection.md]

Of each detector: the whole model, given its images, boxes and labels as tensors, is put through the
joint export and the row says where that stops; its dense part (bench/detection_parts.py) goes the
way of bench/zoo.py, stock and as graphcheck exports it, 3 steps with every gradient compared. One
child process for each, every result a JSON line, resumable.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from zoo import TRAINING, read, repaired, stock

TARGET = """\
import sys
sys.path.insert(0, {here!r})
from detection_parts import build
model, example_inputs = build({name!r})
"""

WHOLE = """\
import sys
sys.path.insert(0, {here!r})
from detection_parts import whole_stops_at
print(whole_stops_at({name!r}))
"""


def names() -> list[str]:
    import torchvision

    return sorted(torchvision.models.list_models(module=torchvision.models.detection))


def whole(name: str) -> str:
    """Where the joint export of the whole detector stops, in torch's words."""
    here = str(Path(__file__).parent.resolve())
    done = subprocess.run(
        [sys.executable, "-c", WHOLE.format(here=here, name=name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def parts(name: str, timeout: float, libraries: list[str]) -> dict[str, Any]:
    here = str(Path(__file__).parent.resolve())
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"{name}.py"
        target.write_text(TARGET.format(here=here, name=name))
        arguments = [str(target), *TRAINING, *libraries]
        return {"stock": stock(arguments, timeout), "graphcheck": repaired(arguments, timeout)}


def table(rows: dict[str, dict[str, Any]]) -> str:
    right = sum(row["graphcheck"]["verdict"] in ("match", "drift") for row in rows.values())
    stock_right = sum(row["stock"]["verdict"] in ("match", "drift") for row in rows.values())
    lines = [
        "# torchvision's detectors",
        "",
        "`python bench/detection.py`: no whole detector can be exported for training as it is: its",
        "losses check and select boxes, whose number depends on the data. The second column says",
        "where the joint export stops once the checks are taken away (`nothing`: there is a joint",
        "graph then, which is not lowered here). The dense part",
        "(backbone, pyramid, heads; the targets of each anchor and the pooled features of",
        "proposals are inputs, see `bench/detection_parts.py`) is trained for 3 steps in the",
        "unpatched runtime against eager, every gradient compared. RoI pooling and the choice of",
        "proposals are in no row.",
        "",
        f"{len(rows)} detectors: dense part right on the stock flow **{stock_right}**, as exported "
        f"by graphcheck **{right}**.",
        "",
        "| detector | the whole: joint export stops at | dense part, stock | why | graphcheck "
        "| worst error | by rounding | rewritten |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in sorted(rows.items()):
        mine, other = row["graphcheck"], row["stock"]
        verdict = mine["verdict"] + (" (fast)" if row["convolutions"] == "fast" else "")
        verdict += f": {mine['why'][:160]}" if mine["why"] else ""
        rewritten = ", ".join(f"{k} x{v}" for k, v in sorted(mine["rewrites"].items()))
        lines.append(
            f"| {name} | {row['whole']} | {other['verdict']} | {other['why'][:110]} | {verdict} "
            f"| {mine['worst']:.1e} | {mine['tolerance']:.1e} | {rewritten} |".replace("\n", " ")
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--results", type=Path, default=Path("bench/results/detection.jsonl"))
    parser.add_argument("--table", type=Path, default=Path("bench/results/detection.md"))
    parser.add_argument("--timeout", type=float, default=1500.0)
    parser.add_argument("--kernel-library", default="")
    options = parser.parse_args()
    libraries = ["--kernel-library", options.kernel_library] if options.kernel_library else []
    options.results.parent.mkdir(parents=True, exist_ok=True)
    rows = read(options.results)
    for name in options.models or names():
        if name in rows:
            continue
        rows[name] = {
            "model": name,
            "convolutions": "fast" if libraries else "portable",
            "whole": re.sub(r"\s+", " ", whole(name))[:200],
            **parts(name, options.timeout, libraries),
        }
        with options.results.open("a") as stream:
            stream.write(json.dumps(rows[name]) + "\n")
        print(name, rows[name]["stock"]["verdict"], "->", rows[name]["graphcheck"]["verdict"])
        options.table.write_text(table(rows))


if __name__ == "__main__":
    main()
