"""Running probes: one crash loses one answer, answers are kept per build, reading is cheap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from graphcheck.advisory import run
from graphcheck.advisory.load import all_advisories
from graphcheck.errors import DeviceError

MAX_POOL, DROPOUT, SGD = "GCA-2026-0001", "GCA-2026-0002", "GCA-2026-0014"
PROBES = {a.id: a.probe for a in all_advisories()}


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Probes that behave as told, on a runtime of build `b1`, with a cache of their own."""
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr(run, "_TASK", "crashing_task:run_probes")
    monkeypatch.setattr(run, "_build_id", lambda: "b1")

    def behaviour(**by_name: str) -> None:
        monkeypatch.setenv("BEHAVIOUR", msgspec.json.encode(by_name).decode())

    behaviour()
    return behaviour


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise AssertionError("a child was started")

        monkeypatch.setattr(run, "run_worker", fail)

    return forbid


def test_results_are_kept(behave: Callable[..., None], no_child: Callable[[], None]) -> None:
    behave(native_dropout_scale="right")
    assert run.cached() == {}
    told: list[str] = []
    found = run.probe([MAX_POOL, DROPOUT], timeout=60, progress=told.append)
    assert {key: result.outcome for key, result in found.items()} == {
        MAX_POOL: "wrong",
        DROPOUT: "right",
    }
    assert found[MAX_POOL].figure == "max_pool2d_backward measured"
    assert found[MAX_POOL].build_id == "b1"
    assert told == [
        "loading the runtime for probes",
        "probing the runtime, 1 of 2: max_pool2d_backward",
        "probing the runtime, 2 of 2: native_dropout_scale",
    ]
    no_child()
    assert run.probe([MAX_POOL, DROPOUT]) == found
    assert run.cached() == found
    assert run.cached([DROPOUT]) == {DROPOUT: found[DROPOUT]}


def test_only_missing_answers_are_looked_for(behave: Callable[..., None]) -> None:
    run.probe([MAX_POOL], timeout=60)
    told: list[str] = []
    behave(native_dropout_scale="right")
    found = run.probe([MAX_POOL, DROPOUT], timeout=60, progress=told.append)
    assert found[DROPOUT].outcome == "right"
    assert told[1:] == ["probing the runtime, 1 of 1: native_dropout_scale"]


def test_refresh_runs_again(behave: Callable[..., None]) -> None:
    run.probe([MAX_POOL, DROPOUT], timeout=60)
    behave(max_pool2d_backward="right")
    assert run.probe([MAX_POOL], timeout=60)[MAX_POOL].outcome == "wrong"
    assert run.probe([MAX_POOL], timeout=60, refresh=True)[MAX_POOL].outcome == "right"
    assert {key: result.outcome for key, result in run.cached().items()} == {
        MAX_POOL: "right",
        DROPOUT: "wrong",
    }


def test_another_build_is_another_runtime(
    behave: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    run.probe([MAX_POOL], timeout=60)
    monkeypatch.setattr(run, "_build_id", lambda: "b2")
    assert run.cached() == {}


def test_a_changed_probe_is_run_again(
    behave: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    run.probe([MAX_POOL], timeout=60)
    monkeypatch.setattr(run, "digest", lambda name: "changed")
    assert run.cached() == {}
    behave(max_pool2d_backward="right")
    assert run.probe([MAX_POOL], timeout=60)[MAX_POOL].outcome == "right"
    assert set(run.cached()) == {MAX_POOL}


@pytest.mark.parametrize(
    ("how", "detail", "kept"),
    [
        ("crash", "its process was killed by SIGABRT", True),
        ("exit", "exited with code 3", True),
        ("watchdog", "its process did not end within 60 s", False),
        ("memory", "its process ran out of memory (MemoryError: no room)", False),
    ],
)
def test_a_probe_that_takes_its_process_down_loses_no_other(
    behave: Callable[..., None], how: str, detail: str, kept: bool
) -> None:
    ids = [MAX_POOL, DROPOUT, "GCA-2026-0003"]
    behave(native_dropout_scale=how)
    found = run.probe(ids, timeout=60)
    assert [found[key].outcome for key in ids] == ["wrong", "not run", "wrong"]
    assert found[DROPOUT].detail == detail
    # What another day may end otherwise is not remembered.
    assert (DROPOUT in run.cached()) is kept


def test_a_hang_ends_at_the_time_limit(behave: Callable[..., None]) -> None:
    behave(native_dropout_scale="hang")
    found = run.probe([MAX_POOL, DROPOUT, "GCA-2026-0003"], timeout=3)
    assert found[MAX_POOL].outcome == "wrong"
    assert found[DROPOUT].outcome == "not run"
    assert found[DROPOUT].detail.startswith("the time limit ended it (no end after ")
    assert found["GCA-2026-0003"].detail == "the time limit of 3 s was used up before it"
    assert set(run.cached()) == {MAX_POOL}


def test_a_child_that_does_not_start_answers_for_all(behave: Callable[..., None]) -> None:
    behave(start="crash")
    found = run.probe([MAX_POOL, DROPOUT], timeout=60)
    assert {result.outcome for result in found.values()} == {"not run"}
    assert {result.detail for result in found.values()} == {"its process was killed by SIGABRT"}
    assert run.cached() == {}


def test_a_probe_that_damages_memory_runs_alone(
    behave: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[str]] = []
    original = run._session

    def session(names: Any, *rest: Any) -> Any:
        batches.append(list(names))
        return original(names, *rest)

    monkeypatch.setattr(run, "_session", session)
    run.probe([SGD, MAX_POOL, DROPOUT], timeout=60)
    assert batches == [["max_pool2d_backward", "native_dropout_scale"], ["sgd_half_parameters"]]


def test_a_damaged_cache_is_no_cache(behave: Callable[..., None], tmp_path: Path) -> None:
    run.probe([MAX_POOL], timeout=60)
    (file,) = (tmp_path / "probes").glob("*.json")
    file.write_text("{")
    assert run.cached() == {}
    assert run.probe([MAX_POOL], timeout=60)[MAX_POOL].outcome == "wrong"
    assert set(run.cached()) == {MAX_POOL}


def test_without_a_runtime_nothing_is_run(
    monkeypatch: pytest.MonkeyPatch, no_child: Callable[[], None]
) -> None:
    def missing() -> str:
        raise DeviceError("executorch is not installed")

    monkeypatch.setattr(run, "_build_id", missing)
    no_child()
    found = run.probe([MAX_POOL])
    assert found[MAX_POOL].outcome == "not run"
    assert found[MAX_POOL].detail == "executorch is not installed"
    assert run.cached() == {}


def test_nothing_to_probe_starts_nothing(
    behave: Callable[..., None], no_child: Callable[[], None]
) -> None:
    no_child()
    assert run.probe([]) == {}
    assert run.probe(["GCA-1999-0001"]) == {}


def test_what_a_probe_raises_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphcheck.advisory import task
    from graphcheck.advisory.probes import interface

    def fail(load: Any) -> Any:
        raise RuntimeError("error: 0x12\nand more")

    monkeypatch.setattr(
        interface, "all_probes", lambda: {"a": interface.Probe("a", fail, lambda figures: None)}
    )
    told: list[str] = []
    monkeypatch.setattr(task, "progress", told.append)
    monkeypatch.setattr(task, "_import_runtime", lambda: None)
    task.run_probes({"names": ["a"], "seconds": 60.0})
    assert told[-1] == task.RESULT + (
        '{"name":"a","outcome":"not run","figure":"","detail":"RuntimeError: error: 0x12"}'
    )
