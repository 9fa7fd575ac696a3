"""This machine's runner, interrupted: killed, out of space; and results that are kept."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from graphcheck.runtime.devices import job
from graphcheck.runtime.devices.host import train
from graphcheck.runtime.devices.interface import device, devices, families
from graphcheck.runtime.devices.job import files_of

pytestmark = pytest.mark.usefixtures("runner")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary files go; nothing may be left in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def _runner_of(folder):
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in words and b"runner" in words.split(b"\0")[0]:
                return int(entry.name)
    return 0


def test_a_runner_that_is_killed(programs, folder):
    def kill():
        for _ in range(400):
            pid = _runner_of(folder)
            if pid:
                time.sleep(0.5)
                os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.05)

    helper = threading.Thread(target=kill)
    helper.start()
    trace = train(programs["healthy"].request(steps=1_000_000, record=False))
    helper.join()
    step = len(trace.steps)
    assert 0 < step < 1_000_000
    assert (trace.failure.kind, trace.failure.stage) == ("device", f"step {step}")
    assert trace.failure.message == f"the native runner was killed by SIGKILL, at step {step}"
    assert _runner_of(folder) == 0


def test_a_disk_that_is_full_in_the_middle(programs, folder):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
    try:
        trace = train(programs["healthy"].request(steps=1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    step = len(trace.steps)
    assert 0 < step < 1000
    assert (trace.failure.kind, trace.failure.stage) == ("space", f"step {step}")
    assert trace.failure.message == (f"the trace cannot be written: File too large, at step {step}")


def test_a_runner_does_not_outlive_who_reads_its_trace(programs, folder, tmp_path):
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        try:
            train(programs["healthy"].request(steps=1_000_000, record=False))
        finally:
            os._exit(0)
    pid = 0
    for _ in range(400):
        pid = pid or _runner_of(folder)
        if pid:
            break
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.05)
    assert pid > 0
    assert not Path(f"/proc/{pid}").exists()
    for left in tmp_path.iterdir():  # of the child that was killed
        for file in left.iterdir():
            file.unlink()
        left.rmdir()


def test_a_kept_result_is_of_this_program_and_these_inputs(programs, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "cache_dir", lambda *_: tmp_path)
    request = programs["healthy"].request(steps=2, keep=True, resume=True)
    assert not train(replace(request, learning_rate=0.03)).resumed
    again = train(replace(request, learning_rate=0.03))
    assert again.resumed
    assert len(again.steps) == 2
    x, *rest = request.batches[0]
    other = replace(x, data=bytes(len(x.data)))
    changed = replace(request, learning_rate=0.03, batches=((other, *rest),))
    assert not train(changed).resumed
    copy = tmp_path / "other name.pte"
    copy.write_bytes(request.program.read_bytes())
    assert train(replace(request, learning_rate=0.03, program=copy)).resumed
    copy.write_bytes(programs["mlp_f64"].path.read_bytes())
    case = programs["mlp_f64"]
    assert not train(replace(case.request(steps=2, resume=True, keep=True), program=copy)).resumed


def test_names_on_a_device_are_ours(programs, tmp_path):
    odd = tmp_path / "..;rm -rf $HOME .so"
    request = replace(programs["healthy"].request(), kernel_libraries=(odd,), weights=odd)
    assert set(files_of(request)) == {"program.pte", "weights.ptd", "kernels0.so"}


def test_what_there_is():
    assert {"host", "qemu-aarch64"} <= set(devices())
    assert "ssh" in families()
    assert device("host").machine()
