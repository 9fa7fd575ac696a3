"""Running the command line in this process, on a stub of the API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_stub import Api, Ended

import graphcheck.api
from graphcheck.cli.main import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file `model.py` and no configuration."""
    (tmp_path / "model.py").write_text("x = 1\ny = 2\n")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "GRAPHCHECK_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """The stub in place of `check_target` and `validate_target`."""
    stub = Api()
    monkeypatch.setattr(graphcheck.api, "check_target", stub)
    monkeypatch.setattr(graphcheck.api, "validate_target", stub)
    return stub


@pytest.fixture
def command(folder: Path, api: Api, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`command("check", "model.py")` gives exit code, stdout and stderr."""

    def call(*arguments: str) -> Ended:
        code = run(arguments)
        out, err = capsys.readouterr()
        return Ended(int(code), out, err)

    return call
