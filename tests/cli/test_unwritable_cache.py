"""A cache that cannot be written: told in one sentence, or done without where it saves time only.

A path below a regular file can be made by nobody, root included.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from graphcheck.advisory import run as advisory_run
from graphcheck.errors import DeviceError
from graphcheck.files import cache_dir, check_cache
from graphcheck.opset import load as load_module
from graphcheck.opset.types import Opset
from graphcheck.process import run_worker
from graphcheck.runtime.devices.job import _kept

_HINT = "Set GRAPHCHECK_CACHE_DIR to a folder that you may write to."


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "cache"
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(folder))
    return folder


def test_the_sentence(cache: Path, tmp_path: Path) -> None:
    message = f"the cache folder {cache}/kernels/a cannot be written: Not a directory"
    with pytest.raises(DeviceError) as refused:
        cache_dir("kernels", "a")
    assert (refused.value.message, refused.value.hint) == (message, _HINT)
    with pytest.raises(DeviceError) as refused:
        check_cache(tmp_path / "gone")
    assert refused.value.message == (
        f"the cache folder {tmp_path}/gone cannot be written: No such file or directory"
    )
    check_cache(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_worker_hands_it_on(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "caching.py").write_text(
        "from graphcheck.files import cache_dir\n"
        "def task(request):\n"
        "    return str(cache_dir('runner'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DeviceError) as refused:
        run_worker("caching:task", {}, str, timeout=60.0)
    assert refused.value.message == (
        f"the cache folder {cache}/runner cannot be written: Not a directory"
    )
    assert refused.value.hint == _HINT
    assert refused.value.exit_code == 4


def test_probes_are_run_and_not_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = advisory_run._Outcome("wrong", "1.5")
    monkeypatch.setattr(advisory_run, "_build_id", lambda: "b1")
    monkeypatch.setattr(
        advisory_run, "_run", lambda names, *_: (dict.fromkeys(names, outcome), tuple(names))
    )
    assert advisory_run.cached() == {}
    found = advisory_run.probe(["GCA-2026-0001"])
    assert found["GCA-2026-0001"].outcome == "wrong"
    assert advisory_run.cached() == {}


def test_the_operator_set_is_read_from_the_runtime_each_time(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def generate_live() -> Opset:
        calls.append(1)
        return Opset("executorch", "1.5.9", "lib", frozenset(["aten::add.out"]), source="test")

    monkeypatch.setattr(load_module, "installed_version", lambda: "1.5.9")
    monkeypatch.setattr("graphcheck.opset.generate.live.generate_live", generate_live)
    monkeypatch.setattr("graphcheck.runtime.libraries.build_id", lambda: "abc")
    assert load_module.load("installed") == load_module.load("installed")
    assert calls == [1, 1]


def test_results_of_devices_are_not_kept(cache: Path) -> None:
    assert _kept(None, "a device") is None  # type: ignore[arg-type]
