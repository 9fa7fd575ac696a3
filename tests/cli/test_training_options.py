"""Options of training that cannot be meant."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("rate", ["nan", "inf", "-1"])
def test_learning_rate(rate, capsys, tmp_path) -> None:
    from graphcheck.cli.main import run

    (tmp_path / "net.py").write_text("")
    code = run(["validate", str(tmp_path / "net.py"), "--lr", rate])
    told = capsys.readouterr().err
    assert code == 2
    assert f"--learning-rate {float(rate):g}: it is a finite number of 0 or more." in told
    assert "next: For instance --learning-rate 0.01." in told
