"""Real programs, lowered once and kept in pytest's cache."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def files(request: pytest.FixtureRequest) -> Path:
    """A folder with what `build_artefacts.py` writes; tests must not change it."""
    pytest.importorskip("executorch")
    source = HERE / "build_artefacts.py"
    versions = [importlib.metadata.version(name) for name in ("torch", "executorch")]
    key = hashlib.sha256(source.read_bytes() + repr(versions).encode()).hexdigest()[:16]
    folder = Path(request.config.cache.mkdir(f"graphcheck-artefacts-{key}"))
    with filelock.FileLock(str(folder / ".lock")):
        if not (folder / "complete").is_file():
            done = subprocess.run(
                [sys.executable, str(source), str(folder)],
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(autouse=True)
def no_probes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What probes have measured on this machine does not change what a test sees."""
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(tmp_path / "cache"))
