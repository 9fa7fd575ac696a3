"""How long OpenMP spins in a worker: briefly, unless the user says how it is to wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphcheck.process import run_worker, worker_environment

_NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.mark.parametrize(
    ("own", "there"),
    [
        ({}, {"GOMP_SPINCOUNT": "5000"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
    ],
)
def test_what_the_user_set_stays(
    own: dict[str, str],
    there: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    assert {name: v for name, v in worker_environment().items() if name in _NAMES} == there
    (tmp_path / "telling.py").write_text(
        "import os\ndef environment(request):\n    return dict(os.environ)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    told = run_worker("telling:environment", {}, dict, timeout=60.0)
    assert {name: value for name, value in told.items() if name in _NAMES} == there
