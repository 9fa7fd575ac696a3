"""Try the patches on real source trees: apply, compile, run, apply again, revert.

    python bench/source_trees.py TREE... [--run NUMBER] [--output bench/results/source_trees.md]

Each tree is copied first. Every edited C++ file is compiled against the tree's own headers (for an
edited header, files that include it), without linking; a file that does not compile before the
edit either says nothing about it and is counted as such. With `--run N` the kernels of the last N
ExecuTorch trees also run before and after (source_trees_run.cpp, linked with what they need of
the tree's own runtime). Nothing of the trees is written down but their versions.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from source_trees_run import report_of_runs, run_before_and_after

from graphcheck.patch.source.run import Selection, apply, revert, select, status
from graphcheck.patch.source.survey import PatchState

USERS_OF_A_HEADER = 2
STANDARD = {"executorch": "c++17", "nntrainer": "c++20"}
OTHER_MACHINES = ("arm", "neon", "opencl", "cl_", "cuda", "npu", "qnn")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--run", type=int, default=0, metavar="NUMBER")
    options = parser.parse_args()
    tried, ran = [], []
    for tree in options.trees:
        tried.append(_try(tree))
        print(f"{tree}: {tried[-1][1]}", file=sys.stderr)
    executorch = [tree for tree in options.trees if (tree / "kernels" / "portable").is_dir()]
    for tree in executorch[len(executorch) - options.run :]:
        ran.append(run_before_and_after(tree))
        print(f"{tree}: {ran[-1]}", file=sys.stderr)
    text = _report(tried) + report_of_runs(ran)
    if options.output:
        options.output.write_text(text)
    else:
        print(text)
    return 0


def _try(tree: Path) -> tuple[str, dict[str, str], dict[str, str]]:
    """The name of a tree, what became of it, and the state of each patch in it."""
    with tempfile.TemporaryDirectory() as work:
        # The folder's name is part of what a kernel includes.
        copy = Path(work) / "executorch"
        shutil.copytree(tree, copy, symlinks=True)
        before = _hashes(copy)
        selection = select(copy)
        project = selection.tree.project
        name = f"{project.title} {selection.tree.version or 'of unknown version'}"
        first = status(selection)
        states = {state.patch.id: _word(state) for state in first.states}
        changed = apply(selection).changed
        done = {"edited": f"{len(changed)} files"}
        done |= _compiled(selection, changed, Path(work), tree)
        once = _hashes(copy)
        again = apply(selection)
        same = not again.changed and _hashes(copy) == once
        done["again"] = "no change" if same else "CHANGED"
        revert(selection)
        done["reverted"] = "to the byte" if _hashes(copy) == before else "DIFFERENT"
    return name, done, states


def _word(state: PatchState) -> str:
    return {"not applicable": "-", "fixed upstream": "fixed"}.get(state.state.value, state.state)


def _hashes(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def _compiled(
    selection: Selection, changed: tuple[str, ...], work: Path, original: Path
) -> dict[str, str]:
    root = selection.tree.root
    counts: Counter[str] = Counter()
    for name in changed:
        if name.endswith(".py"):
            compile((root / name).read_bytes(), name, "exec")
            counts["compile"] += 1
            continue
        for unit in _units(root, name):
            if _compiles(selection, root, unit, work):
                counts["compile"] += 1
            elif _compiles(selection, _linked(original, work), unit, work):
                counts["BROKEN"] += 1
                print(f"broken: {unit}", file=sys.stderr)
            else:
                counts["do not compile before the edit either"] += 1
                print(f"not even before: {unit}", file=sys.stderr)
    return {"compiled": ", ".join(f"{count} {what}" for what, count in counts.items())}


def _units(root: Path, name: str) -> list[str]:
    if name.endswith(".cpp"):
        return [name]
    users = sorted(
        str(path.relative_to(root))
        for path in (root / "kernels").rglob("op_*.cpp")
        if f"/{name}>" in path.read_text(encoding="latin-1")
    )
    # Those first whose kernels are what is patched.
    users.sort(key=lambda user: not ("addmm" in user or "layer_norm" in user))
    return users[:USERS_OF_A_HEADER]


def _linked(original: Path, work: Path) -> Path:
    link = work / "original" / "executorch"
    if not link.exists():
        link.parent.mkdir()
        link.symlink_to(original.resolve())
    return link


def _compiles(selection: Selection, root: Path, unit: str, work: Path) -> bool:
    name = selection.tree.project.name
    defines = ["-DC10_USING_CUSTOM_GENERATED_MACROS"]
    if name == "executorch":
        folders = [root.parent, root / "runtime/core/portable_type/c10"]
        spec = importlib.util.find_spec("torch")
        if "optimized" in unit and spec is not None and spec.origin:
            # Optimized kernels use ATen's vectors, and with them PyTorch's own c10.
            folders = [Path(spec.origin).parent / "include", root.parent]
            defines = ["-DET_USE_PYTORCH_HEADERS=1"]
    else:
        found = {path.parent for path in root.rglob("*.h")}
        folders = [root, *sorted(f for f in found if not _other_machine(f.relative_to(root)))]
    command = ["g++", f"-std={STANDARD[name]}", "-fsyntax-only", "-w", str(root / unit)]
    command += [f"-I{folder}" for folder in folders] + defines
    done = subprocess.run(command, capture_output=True, text=True, cwd=work, timeout=600)
    if done.returncode and os.environ.get("VERBOSE"):
        print(done.stderr[:2000], file=sys.stderr)
    return done.returncode == 0


def _other_machine(folder: Path) -> bool:
    return any(mark in folder.as_posix() for mark in OTHER_MACHINES)


def _report(tried: list[tuple[str, dict[str, str], dict[str, str]]]) -> str:
    lines = [
        "# Patches on real source trees",
        "",
        "Made by `python bench/source_trees.py TREE...` on checkouts of releases and of the main",
        "branch. Each edited C++ file is compiled with g++ against the tree's headers, an edited",
        "header through files that include it. Optimized kernels need PyTorch's headers: those of",
        "the PyTorch installed here were taken, which is not the one of every release.",
        "",
        "| tree | edited | compiled | applied again | reverted |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, done, _ in tried:
        cells = (name, *(done[key] for key in ("edited", "compiled", "again", "reverted")))
        lines.append(f"| {' | '.join(cells)} |")
    names = sorted({patch for _, _, states in tried for patch in states})
    lines += ["", "State of each patch before (`-`: the tree has no such function or fault)", ""]
    lines += [f"| patch | {' | '.join(name for name, _, _ in tried)} |"]
    lines += [f"| --- |{' --- |' * len(tried)}"]
    for patch in names:
        cells = (patch, *(states.get(patch, "") for _, _, states in tried))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
