"""Run the kernels of an ExecuTorch tree before and after its patches."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

from graphcheck.patch.source.run import apply, select

__all__ = ["report_of_runs", "run_before_and_after"]

HERE = Path(__file__).parent
PORTABLE = (
    *("max_pool2d_with_indices_backward", "native_dropout", "native_group_norm"),
    *("native_layer_norm", "native_batch_norm", "addmm", "convolution", "cumsum", "var", "flip"),
)
OPTIMIZED = ("sum", "native_layer_norm")
RUNTIME = (
    *("kernels/portable/cpu/util/*.cpp", "runtime/core/*.cpp", "runtime/core/exec_aten/util/*.cpp"),
    *("runtime/core/portable_type/*.cpp", "runtime/platform/*.cpp"),
    *("runtime/platform/default/posix.cpp", "runtime/kernel/operator_registry.cpp"),
)
NOT_HERE = ("android", "_aten.cpp", "test")
Values = dict[str, str]


def run_before_and_after(tree: Path) -> tuple[str, Values, Values]:
    """The version of a tree, and what its kernels compute as they are and patched."""
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "executorch"
        shutil.copytree(tree, copy, symlinks=True)
        before = _computed(copy, Path(work))
        apply(select(copy))
        return select(copy).tree.version, before, _computed(copy, Path(work))


def _computed(root: Path, work: Path) -> Values:
    cpu = root / "kernels" / "portable" / "cpu"
    sources = [cpu / f"op_{name}.cpp" for name in PORTABLE]
    sources = [source for source in sources if source.is_file()]
    flags = ["-std=c++17", "-O0", "-w"]
    if not (cpu / "op_native_dropout.cpp").is_file():
        flags.append("-DNO_DROPOUT")
    link: list[str] = []
    spec = importlib.util.find_spec("torch")
    fast = [root / "kernels" / "optimized" / "cpu" / f"op_{name}.cpp" for name in OPTIMIZED]
    if all(source.is_file() for source in fast) and spec is not None and spec.origin:
        # Optimized kernels are made with PyTorch's headers, and then all is.
        torch = Path(spec.origin).parent
        sources += [*fast, cpu / "op_sum.cpp"]
        flags += [f"-I{torch / 'include'}", f"-I{root.parent}"]
        flags += ["-DET_USE_PYTORCH_HEADERS=1", "-DOPTIMIZED"]
        link = [f"-L{torch / 'lib'}", "-lc10", f"-Wl,-rpath,{torch / 'lib'}"]
    else:
        flags += [f"-I{root.parent}", f"-I{root / 'runtime/core/portable_type/c10'}"]
        flags += ["-DC10_USING_CUSTOM_GENERATED_MACROS"]
    objects = work / "runtime"
    if not objects.is_dir():  # no patch touches it
        objects.mkdir()
        found = [path for pattern in RUNTIME for path in sorted(root.glob(pattern))]
        _compile([*flags, "-c", *_here(found)], objects)
    program = work / "program"
    runtime = [str(path) for path in objects.glob("*.o")]
    main = str(HERE / "source_trees_run.cpp")
    _compile([*flags, main, *map(str, sources), *runtime, *link, "-o", str(program)], work)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


def _here(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths if not any(mark in path.name for mark in NOT_HERE)]


def _compile(arguments: list[str], cwd: Path) -> None:
    done = subprocess.run(["g++", *arguments], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])


def report_of_runs(ran: list[tuple[str, Values, Values]]) -> str:
    """A table: what the kernels computed before and after, for each tree."""
    if not ran:
        return ""
    names = list(dict.fromkeys(name for _, before, _ in ran for name in before))
    lines = [
        "",
        "What the kernels computed before and after (`source_trees_run.cpp` says of what; the last",
        "column is right)",
        "",
        f"| kernel | {' | '.join(f'{version} before | after' for version, _, _ in ran)} |",
        f"| --- |{' --- | --- |' * len(ran)}",
    ]
    for name in names:
        cells = [f"{b.get(name, '')} | {a.get(name, '')}" for _, b, a in ran]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
