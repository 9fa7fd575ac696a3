"""Building the runner with CMake for a device that there is no ExecuTorch wheel for."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graphcheck.errors import DeviceError, UsageError
from graphcheck.files import cache_dir
from graphcheck.process import describe_exit, run_command

__all__ = ["Plan", "Step", "carry_out", "plan_build"]

NATIVE = Path(__file__).resolve().parent / "native"
_STEP_SECONDS = 3600.0 * 2
_ABI, _PLATFORM = "arm64-v8a", "android-26"
_OPTIONS = (
    "EXECUTORCH_BUILD_EXTENSION_DATA_LOADER",
    "EXECUTORCH_BUILD_EXTENSION_FLAT_TENSOR",
    "EXECUTORCH_BUILD_EXTENSION_NAMED_DATA_MAP",
    "EXECUTORCH_BUILD_KERNELS_OPTIMIZED",
    "EXECUTORCH_ENABLE_LOGGING",
)
"""What of ExecuTorch the runner needs."""


@dataclass(frozen=True)
class Step:
    """One command: `what` it does."""

    what: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)


@dataclass(frozen=True)
class Plan:
    """The commands that build a runner; `built` is where they leave it, `output` where it goes."""

    steps: tuple[Step, ...]
    built: Path
    output: Path


def plan_build(
    executorch: Path, *, ndk: Path | None, toolchain: Path | None, output: Path, work: Path | None
) -> Plan:
    """How to build the runner from `executorch`: its sources, an install tree, or a package.

    `ndk` is the folder of an Android NDK, `toolchain` a CMake toolchain file; with neither, the
    runner is for this machine. `work` keeps the build trees (by default a folder of the cache).

    Raises UsageError for folders that are not what they should be.
    """
    if ndk is not None and toolchain is not None:
        raise UsageError(
            "--ndk has a toolchain of its own: leave --toolchain out.",
            "Give --ndk alone, or --toolchain alone.",
        )
    flags = _toolchain_flags(ndk, toolchain)
    executorch = executorch.absolute()
    version = _version(executorch)
    # Build trees of other sources, versions and toolchains are others.
    places = (executorch, version, *(path and path.absolute() for path in (ndk, toolchain)))
    key = hashlib.sha256(repr(places).encode()).hexdigest()[:16]
    trees = (work or cache_dir("runner-builds") / key).absolute()
    cmake = _cmake()
    steps = []
    if (executorch / "runtime" / "executor" / "method.h").is_file():
        installed = trees / "install"
        options = [f"-D{option}=ON" for option in _OPTIONS]
        source = [cmake, "-S", str(executorch), "-B", str(trees / "executorch"), *flags, *options]
        source += ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_INSTALL_PREFIX={installed}"]
        jobs = str(os.cpu_count() or 1)
        steps = [
            Step("configure ExecuTorch", tuple(source)),
            Step(
                "build ExecuTorch and install it into the build folder",
                (cmake, "--build", str(trees / "executorch"), "--target", "install", "-j", jobs),
            ),
        ]
        prefix = installed
    elif any(executorch.rglob("executorch-config.cmake")):
        prefix = executorch
    else:
        raise UsageError(
            f"--executorch {executorch}: this is no ExecuTorch: it has neither "
            "runtime/executor/method.h nor an executorch-config.cmake.",
            "Name its sources, the folder that `cmake --install` wrote, or the package of a wheel.",
        )
    # A cross build looks for packages in its own root only, unless it is told otherwise.
    found = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH"]
    runner = trees / "runner"
    steps += [
        Step(
            "configure the runner",
            (
                *(cmake, "-S", str(NATIVE), "-B", str(runner), *flags, *found),
                f"-DGRAPHCHECK_EXECUTORCH_VERSION={version}",
            ),
        ),
        Step("build the runner", (cmake, "--build", str(runner), "--target", "runner")),
    ]
    return Plan(tuple(steps), runner / "runner", output.absolute())


def carry_out(plan: Plan, tell: Callable[[str], None]) -> Path:
    """Run the commands of a plan, each told first; the path of the runner.

    Raises DeviceError with the first error of a command that fails.
    """
    for step in plan.steps:
        tell(f"# {step.what}\n{step}")
        result = run_command(step.words, timeout=_STEP_SECONDS)
        if result.code != 0:
            lines = [line.strip() for line in result.output.splitlines() if line.strip()]
            why = next((line for line in lines if "rror" in line), lines[-1] if lines else "")
            raise DeviceError(
                f"cannot {step.what}: {Path(step.words[0]).name} {describe_exit(result.code)}: "
                f"{why}",
                "Run the command that is shown above to see all that it says.",
            )
    if not plan.built.is_file():
        raise DeviceError(f"CMake left no runner at {plan.built}")
    plan.output.parent.mkdir(parents=True, exist_ok=True)
    part = plan.output.with_name(f".{plan.output.name}.part")
    shutil.copy2(plan.built, part)
    os.replace(part, plan.output)
    return plan.output


def _toolchain_flags(ndk: Path | None, toolchain: Path | None) -> list[str]:
    if ndk is not None:
        file = ndk.absolute() / "build" / "cmake" / "android.toolchain.cmake"
        if not file.is_file():
            raise UsageError(
                f"--ndk {ndk}: this is no Android NDK: it has no build/cmake/"
                "android.toolchain.cmake.",
                "Name the folder of one version, such as ~/Android/Sdk/ndk/27.2.12479018.",
            )
        android = [f"-DANDROID_ABI={_ABI}", f"-DANDROID_PLATFORM={_PLATFORM}"]
        return [f"-DCMAKE_TOOLCHAIN_FILE={file}", *android]
    if toolchain is not None:
        if not toolchain.is_file():
            raise UsageError(
                f"--toolchain {toolchain}: there is no such file.", "Name a CMake toolchain file."
            )
        return [f"-DCMAKE_TOOLCHAIN_FILE={toolchain.absolute()}"]
    return []


def _cmake() -> str:
    path = shutil.which("cmake")
    if path is None:
        raise DeviceError("cmake is not installed", "pip install cmake")
    return path


def _version(executorch: Path) -> str:
    for place in (executorch / "version.txt", executorch.parent / "version.txt"):
        if place.is_file():
            # 1.5.1a0 and the like: sources between releases are of no known runtime.
            return place.read_text().strip() or "unknown"
    for info in executorch.parent.glob("executorch-*.dist-info"):
        return info.name.removeprefix("executorch-").removesuffix(".dist-info")
    return "unknown"
