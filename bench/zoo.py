"""What trains: torchvision's models on the stock runtime, and as graphcheck exports them.

    python bench/zoo.py [--models resnet18 ...] [--set 26|classification|segmentation|video|all]
                        [--kernel-library LIB] [--rewrite NAME]
                        [--results bench/results/zoo.jsonl] [--table bench/results/zoo.md]

One child process per model and side with a time limit; every result is a JSON line, and a model
that has a line already is not run again. `stock` is `graphcheck validate` of the stock lowering,
`graphcheck` is `graphcheck export` with its parity check; both train 3 steps in the runtime and
compare every gradient with eager PyTorch, tolerances derived from the noise of the arithmetic.
Models come smallest first. The portable convolutions take most of the time of the larger ones;
`--kernel-library` runs them by others (`graphcheck patch build --fast`), and the row says so.
`--rewrite addmm_as_mm` gives transformers the runtime's faster product, as the row's rewrites tell.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from layers_exported import without_paths

STEPS = 3
RATE = 0.01
TRAINING = ["--steps", str(STEPS), "--learning-rate", str(RATE), "--output-format", "json"]

# One or two per family, as in the baseline.
TWENTY_SIX = (
    "alexnet",
    "squeezenet1_1",
    "resnet18",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "shufflenet_v2_x1_0",
    "vgg11",
    "swin_t",
    "vit_b_16",
    "efficientnet_b0",
    "mnasnet1_0",
    "googlenet",
    "densenet121",
    "regnet_y_400mf",
    "convnext_tiny",
    "r3d_18",
    "inception_v3",
    "lraspp_mobilenet_v3_large",
    "deeplabv3_mobilenet_v3_large",
    "resnet50",
    "resnext50_32x4d",
    "swin_v2_t",
    "maxvit_t",
    "efficientnet_v2_s",
    "fcn_resnet50",
    "wide_resnet50_2",
)

# The smallest input each accepts, where it is not 2x3x64x64.
SHAPES = {
    "inception_v3": "2,3,75,75",
    "googlenet": "2,3,64,64",
    "maxvit_t": "2,3,224,224",
    "r3d_18": "2,3,4,32,32",
    "mc3_18": "2,3,4,32,32",
    "r2plus1d_18": "2,3,4,32,32",
    "s3d": "1,3,13,209,209",
    "mvit_v1_b": "1,3,16,224,224",
    "mvit_v2_s": "1,3,16,224,224",
}


def shape_of(name: str) -> str:
    if name in SHAPES:
        return SHAPES[name]
    if name.startswith("swin3d"):
        return "1,3,4,32,32"
    if name.startswith("vit_"):
        return "2,3,32,32" if name.endswith("16") or name.endswith("32") else "2,3,28,28"
    if name.startswith(("deeplab", "fcn", "lraspp")):
        return "2,3,32,32"
    return "2,3,64,64"


def names_of(which: str) -> Iterator[str]:
    if which == "26":
        yield from TWENTY_SIX
        return
    import torchvision

    modules = {
        "classification": [torchvision.models],
        "segmentation": [torchvision.models.segmentation],
        "video": [torchvision.models.video],
    }
    chosen = [m for group in modules.values() for m in group] if which == "all" else modules[which]
    names = [name for module in chosen for name in torchvision.models.list_models(module=module)]
    yield from sorted(names, key=_parameters)


def _parameters(name: str) -> int:
    """How many parameters the published weights of a model have."""
    import torchvision

    weights = torchvision.models.get_model_weights(name)
    return min(int(entry.meta["num_params"]) for entry in weights)


def run(arguments: list[str], timeout: float) -> tuple[int | None, dict[str, Any], float]:
    start = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "graphcheck", *arguments, "--timeout", str(timeout)],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout + 60,
        )
    except subprocess.TimeoutExpired:
        return None, {"failure": "no end in time"}, time.monotonic() - start
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        answer = {"failure": (done.stderr.strip().splitlines() or ["no answer"])[-1][:300]}
    return done.returncode, answer, time.monotonic() - start


def stock(arguments: list[str], timeout: float) -> dict[str, Any]:
    code, verdict, seconds = run(["validate", *arguments], timeout)
    failed = next((s for s in verdict.get("stages", ()) if s["outcome"] == "fail"), None)
    return {
        "verdict": verdict.get("verdict", "not run"),
        "stage": failed["name"] if failed else "",
        "why": without_paths(verdict.get("reason") or verdict.get("failure", "")),
        "code": code,
        "seconds": round(seconds, 1),
    }


def repaired(arguments: list[str], timeout: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "model.pte")
        code, result, seconds = run(["export", *arguments, "-o", program], timeout)
    card = result.get("card") or {}
    verdict = result.get("verdict") or {}
    return {
        "verdict": card.get("verdict") or verdict.get("verdict", "not run"),
        "why": without_paths(result.get("failure", "")),
        "rewrites": {r["name"]: r["count"] for r in card.get("rewrites", ())},
        "worst": max((verdict.get("worst_gradient_errors") or {"": 0.0}).values(), default=0.0),
        "tolerance": max((verdict.get("gradient_tolerances") or {"": 0.0}).values(), default=0.0),
        "arena_mb": round(card.get("arena_bytes", 0) / 1e6, 1),
        "code": code,
        "seconds": round(seconds, 1),
    }


def common(name: str) -> list[str]:
    return [
        f"torchvision:{name}",
        "--input",
        f"float32[{shape_of(name)}]",
        "--num-classes",
        "10",
        *TRAINING,
    ]


def read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    rows = (json.loads(line) for line in path.read_text().splitlines() if line.strip())
    return {row["model"]: row for row in rows}


def table(rows: dict[str, dict[str, Any]], left: dict[str, int]) -> str:
    """The report. `left` are the models that were not run, with their numbers of parameters."""
    right = sum(row["graphcheck"]["verdict"] in ("match", "drift") for row in rows.values())
    stock_right = sum(row["stock"]["verdict"] in ("match", "drift") for row in rows.values())
    lines = [
        "# torchvision's models: the stock flow, and as graphcheck exports them",
        "",
        f"`python bench/zoo.py`: {STEPS} steps of SGD in the unpatched runtime against eager,",
        "every gradient compared at every step (weights reset to the runtime's before each step).",
        "`by rounding` is what rounding alone can change of the worst determined gradient, of",
        "its largest entry: batch norms of eight values, one behind the other, amplify it.",
        "`fast`: with the convolutions of `graphcheck patch build --fast` loaded, to save time.",
        "",
        f"{len(rows)} models were run: right on the stock flow **{stock_right}**, as exported by "
        f"graphcheck **{right}**. {len(left)} were not.",
        "",
        "| model | input | stock | why | graphcheck | worst error | by rounding | rewritten |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in sorted(rows):
        row = rows[name]
        mine, other = row["graphcheck"], row["stock"]
        rewritten = ", ".join(f"{k} x{v}" for k, v in sorted(mine["rewrites"].items()))
        verdict = mine["verdict"] + ("" if row.get("convolutions") != "fast" else " (fast)")
        by_rounding = f"{mine['tolerance']:.1e}" if "tolerance" in mine else "-"
        if mine["why"]:
            verdict += f": {mine['why'][:160]}"
        lines.append(
            f"| {name} | {row['input']} | {other['verdict']} | {other['why'][:110]} "
            f"| {verdict} | {mine['worst']:.1e} | {by_rounding} | {rewritten} |".replace("\n", " ")
        )
    if left:
        why = "the bench goes smallest first, and was ended before it came to them"
        lines += ["", f"Not run ({why}):", ""]
        lines += [f"- {name}: {count / 1e6:.0f} million parameters" for name, count in left.items()]
    return "\n".join(lines) + "\n"


def not_run(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    """The models of all sets that have no row, with their numbers of parameters."""
    return {name: _parameters(name) for name in names_of("all") if name not in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--set", default="26", dest="which")
    parser.add_argument("--results", type=Path, default=Path("bench/results/zoo.jsonl"))
    parser.add_argument("--table", type=Path, default=Path("bench/results/zoo.md"))
    parser.add_argument("--timeout", type=float, default=900.0)
    parser.add_argument("--kernel-library", default="")
    parser.add_argument("--rewrite", action="append", default=[])
    options = parser.parse_args()
    libraries = ["--kernel-library", options.kernel_library] if options.kernel_library else []
    rewrites = [part for name in options.rewrite for part in ("--rewrite", name)]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    rows = read(options.results)
    for name in options.models or names_of(options.which):
        if name in rows:
            continue
        row = {
            "model": name,
            "input": shape_of(name),
            "convolutions": "fast" if libraries else "portable",
            "stock": stock([*common(name), *libraries], options.timeout),
            "graphcheck": repaired([*common(name), *libraries, *rewrites], options.timeout),
        }
        rows[name] = row
        with options.results.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        options.table.write_text(table(rows, not_run(rows)))
        print(name, row["stock"]["verdict"], "->", row["graphcheck"]["verdict"], flush=True)
        print("   ", row["graphcheck"]["why"][:300], flush=True)
    options.table.write_text(table(rows, not_run(rows)))


if __name__ == "__main__":
    main()
