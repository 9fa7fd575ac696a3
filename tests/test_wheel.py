"""The built wheel carries the data that a checkout has beside the package."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_wheel_finds_its_opsets_and_advisories(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    shipped = {path.name for path in (ROOT / "opsets").rglob("*.yaml")}
    packed = {path.name for path in (site / "graphcheck" / "data" / "opsets").rglob("*.yaml")}
    assert packed == shipped
    assert (site / "graphcheck" / "runtime" / "native" / "runner.cpp").is_file()
    patches = {path.relative_to(ROOT / "patches") for path in (ROOT / "patches").rglob("*.*")}
    packed_patches = site / "graphcheck" / "data" / "patches"
    assert {path for path in patches if not (packed_patches / path).is_file()} <= {
        path for path in patches if path.name.startswith(".")
    }
    for arguments in (
        *(("opset", "list"), ("advisory", "list"), ("rule", "GC301")),
        *(("patch", "list"), ("patch", "cmake-dir")),
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from graphcheck.cli.main import main; main()", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
