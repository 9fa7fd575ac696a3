"""Small things that a first user meets: places, names and time-outs, told in his words."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphcheck.api import export_target
from graphcheck.errors import ModelError, UsageError
from graphcheck.export.types import ExportOptions
from graphcheck.fixing.run import _diff
from graphcheck.graph.diagnose import diagnose_worker
from graphcheck.process import WorkerFailure, run_worker
from graphcheck.report.following import verdict_next_command
from graphcheck.report.types import Report
from graphcheck.report.words import report_summary
from graphcheck.rules.interface import rule_by_code
from graphcheck.rules.types import Finding, Mend, Severity
from graphcheck.validate.types import Verdict
from graphcheck.workload.targets.importing import _attribute
from graphcheck.workload.user_code import frame_among, running_user_code


def test_an_output_that_cannot_be_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases = {
        "no/x.pte": ("there is no folder", "Make it with `mkdir -p "),
        "file/x.pte": ("is a file, not a folder", "Name another file with -o."),
        "": ("is a folder", "Give the name of a file with -o."),
    }
    for name, (message, hint) in cases.items():
        with pytest.raises(UsageError) as refused:
            export_target(ExportOptions("no_such_model.py", output=str(tmp_path / name)))
        assert message in refused.value.message
        assert refused.value.hint.startswith(hint)


def test_a_worker_that_hangs_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hanging.py").write_text("def task(request):\n    while True:\n        pass\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(WorkerFailure) as failed:
        run_worker("hanging:task", {}, dict, timeout=4.0)
    assert failed.value.kind == "timeout"
    file, line = failed.value.frames[0]
    assert file == str(tmp_path / "hanging.py")
    assert line in (2, 3)
    frame = frame_among(failed.value.frames)
    assert frame is not None
    assert frame.code in ("while True:", "pass")


def test_a_worker_that_is_killed_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "littering.py").write_text(
        "import os, pathlib, tempfile\n"
        "def task(request):\n"
        "    folder = pathlib.Path(tempfile.mkdtemp())\n"
        "    (folder / 'trace').write_bytes(bytes(1000))\n"
        "    (folder / 'sub').mkdir()\n"
        "    pathlib.Path(request['told']).write_text(str(folder))\n"
        "    while request['hang']:\n"
        "        pass\n"
        "    return {}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    told = tmp_path / "told"

    class Interrupted(BaseException):
        pass

    def interrupt(output: bytes) -> None:
        raise Interrupted

    for hang, expected in ((True, WorkerFailure), (False, None)):
        told.unlink(missing_ok=True)
        request = {"told": str(told), "hang": hang}
        if expected:
            with pytest.raises(expected):
                run_worker("littering:task", request, dict, timeout=4.0)
        else:
            run_worker("littering:task", request, dict, timeout=60.0)
        assert told.read_text().startswith(f"{temporary}/")
        assert list(temporary.iterdir()) == []

    (tmp_path / "noisy.py").write_text(
        "import tempfile\n"
        "def task(request):\n"
        "    print(tempfile.mkdtemp(), flush=True)\n"
        "    while True:\n"
        "        pass\n"
    )
    with pytest.raises(Interrupted):
        run_worker("noisy:task", {}, dict, timeout=60.0, on_output=interrupt)
    assert list(temporary.iterdir()) == []


def test_a_time_out_in_training_offers_more_time_or_fewer_steps() -> None:
    late = WorkerFailure("timeout", "no end after 25 s", "training 9 steps in the runtime", "")
    problem = diagnose_worker(late, "model.py")
    assert problem.message == (
        "model.py was stopped while training 9 steps in the runtime: no end after 25 s."
    )
    assert problem.hint == "Raise the limit with --timeout, or train fewer steps with --steps."
    verdict = Verdict("model.py", "not run", problem.message)
    assert verdict_next_command(verdict) == "graphcheck validate model.py --timeout 50 --steps 20"
    loading = diagnose_worker(WorkerFailure("timeout", "no end after 25 s", "loading", ""), "m.py")
    assert "keep training loops under" in loading.hint
    verdict = Verdict("m.py", "not run", loading.message)
    assert verdict_next_command(verdict) == "graphcheck check m.py"


def test_our_own_line_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    with pytest.raises(ModelError) as failed, running_user_code("it failed", folder=str(root)):
        rule_by_code(3)  # type: ignore[arg-type]
    assert "graphcheck/" not in failed.value.message


def test_a_name_that_is_not_there_gets_the_ones_that_are() -> None:
    import types

    from torch import nn

    class Net(nn.Module):
        pass

    module = types.ModuleType("model")
    Net.__module__ = "model"
    module.Net = Net  # type: ignore[attr-defined]
    with pytest.raises(ModelError) as failed:
        _attribute(module, "Quux", "model.py")
    assert failed.value.hint == "Name one of Net after the colon."


def test_the_diff_of_a_file_elsewhere_has_its_own_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    monkeypatch.chdir(inside)
    outside = tmp_path / "m.py"
    assert _diff(outside, b"a\n", b"b\n").splitlines()[:2] == [f"--- {outside}", f"+++ {outside}"]
    assert _diff(inside / "m.py", b"a\n", b"b\n").splitlines()[:2] == ["--- a/m.py", "+++ b/m.py"]


def test_what_is_counted_as_mended_is_no_note() -> None:
    mend = Mend("rewrite", "x", "a form of it", True)
    findings = (
        Finding("GC301", Severity.ERROR, "a", "m", mends=(mend,)),
        Finding("GC601", Severity.NOTE, "b", "m", mends=(mend,)),
    )
    told = report_summary(Report("x", findings=findings))
    assert told.endswith("; 1 can be mended exactly [*].")


def test_a_report_prints_as_its_text() -> None:
    report = Report("x", findings=(Finding("GC301", Severity.ERROR, "a.op", "is wrong"),))
    assert "GC301 a.op is wrong" in str(report)
    assert not str(report).endswith("\n")


def test_a_problem_of_the_model_keeps_its_code_from_the_child(tmp_path: Path) -> None:
    """Rooms have errors of their own; between processes they are what they derive from."""
    model = tmp_path / "last.py"
    model.write_text(
        "import torch\n\n\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = torch.nn.Linear(2, 2)\n\n"
        "    def forward(self, x):\n"
        "        y = self.fc(x)\n"
        "        return y, y.sum()\n\n\n"
        "def get_model():\n    return Net()\n\n\n"
        "def get_example_inputs():\n    return (torch.ones(1, 2),)\n"
    )
    result = export_target(ExportOptions(str(model), output=str(tmp_path / "last.pte")))
    assert result.failure_code == "GC006"
    assert result.failure.startswith("The loss is output 1 ([1]), but training differentiates")
    assert result.hint.startswith("Return the loss first and detach the others")
    options = ExportOptions(str(model), output=str(tmp_path / "x.pte"), rewrite=("aten.foo",))
    with pytest.raises(UsageError, match=r"--rewrite: there is no rewrite for aten\.foo"):
        export_target(options)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".pte"] == []
