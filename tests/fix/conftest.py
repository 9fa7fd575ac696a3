"""Running `fix` in this process: importing torch once for all fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from graphcheck.fixing.look import look_task
from graphcheck.fixing.run import run_fix
from graphcheck.fixing.types import FixOptions, FixResult, Look


def look_here(options: FixOptions) -> Look:
    """`look_task` as the worker calls it, without the worker."""
    return look_task(msgspec.to_builtins(options))


@pytest.fixture
def fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FixResult]:
    """`fix(target, swaps=(...))` in the temporary folder, outside any repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    def call(target: str, **options: object) -> FixResult:
        return run_fix(FixOptions(target, **options), look_here)  # type: ignore[arg-type]

    return call
