"""The ExecuTorch of another architecture: the wheel of the same version, fetched once with pip."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from graphcheck.errors import DeviceError
from graphcheck.files import cache_dir, check_cache
from graphcheck.process import run_command
from graphcheck.runtime.libraries import RuntimeLibraries, find_libraries
from graphcheck.runtime.toolchain import native_machine
from graphcheck.worker import progress

__all__ = ["libraries_for"]

_FETCH_SECONDS = 900.0
_PLATFORMS = {"aarch64": "manylinux_2_28_aarch64", "x86_64": "manylinux_2_28_x86_64"}
_KEPT = re.compile(r"executorch/(include/.+|lib/[^/]+\.so)|executorch-[^/]+\.dist-info/METADATA")
"""Of the wheel: what runs, what is compiled against, and its version."""


def libraries_for(machine: str) -> RuntimeLibraries:
    """Headers and libraries of the installed ExecuTorch version for Linux on `machine`.

    For another machine than this one `GRAPHCHECK_AARCH64_EXECUTORCH` (or `..._X86_64_...`) may name
    the package folder of an unpacked wheel; without it the wheel is fetched with pip and kept in
    the cache.

    Raises DeviceError if executorch is not installed, the wheel cannot be had, or is of another
    version.
    """
    here = find_libraries()
    if machine == native_machine():
        return here
    variable = f"GRAPHCHECK_{machine.upper()}_EXECUTORCH"
    given = os.environ.get(variable, "")
    if given:
        found = find_libraries(Path(given).resolve())
    elif machine in _PLATFORMS:
        found = find_libraries(_fetched(machine, here.version, variable))
    else:
        raise DeviceError(
            f"there is no executorch wheel for {machine}",
            "graphcheck runs on x86-64 and arm64 Linux; elsewhere a runner of your own is needed.",
        )
    if "unknown" not in (found.version, here.version) and found.version != here.version:
        raise DeviceError(
            f"executorch for {machine} in {found.package} is {found.version}, "
            f"here {here.version} is installed",
            f"Unpack the wheel of {here.version}, or unset {variable} to have it fetched.",
        )
    return found


def _fetched(machine: str, version: str, variable: str) -> Path:
    """The package folder of the wheel, from the cache."""
    import filelock

    folder = cache_dir("wheels", f"executorch-{version}-{machine}")
    package = folder / "executorch"
    if not package.is_dir():
        check_cache(folder)
    with filelock.FileLock(str(folder / ".lock"), timeout=_FETCH_SECONDS):
        if package.is_dir():
            return package
        # Of a download that was killed.
        for left in folder.glob(".fetch.*"):
            shutil.rmtree(left, ignore_errors=True)
        progress(f"fetching executorch {version} for {machine} with pip (once)")
        with tempfile.TemporaryDirectory(prefix=".fetch.", dir=folder) as work:
            _unpack(_download(machine, version, variable, Path(work)), Path(work) / "wheel")
            for part in (Path(work) / "wheel").iterdir():
                if part.name != "executorch":
                    shutil.move(part, folder / part.name)
            os.replace(Path(work) / "wheel" / "executorch", package)
    return package


def _download(machine: str, version: str, variable: str, folder: Path) -> Path:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    result = run_command(
        [
            *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"),
            *("--only-binary=:all:", "--platform", _PLATFORMS[machine], "--quiet"),
            *("--python-version", python, "--implementation", "cp"),
            *("--abi", f"cp{python.replace('.', '')}", "--dest", str(folder)),
            f"executorch=={version}",
        ],
        timeout=_FETCH_SECONDS,
    )
    wheels = list(folder.glob("executorch-*.whl"))
    if result.code != 0 or not wheels:
        lines = [line.strip() for line in result.output.splitlines() if line.strip()]
        why = next((line for line in lines if "rror" in line), lines[-1] if lines else "no reason")
        raise DeviceError(
            f"the {machine} wheel of executorch {version} cannot be fetched with pip: {why}",
            f"Unpack it yourself and name its folder executorch/ in {variable}.",
        )
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if _KEPT.fullmatch(name):
                archive.extract(name, folder)
