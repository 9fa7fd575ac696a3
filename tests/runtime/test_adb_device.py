"""The adb device against a server of our own: the protocol and the scripts, not Android itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fake_adb import FakeAdb
from middle import in_the_middle

from graphcheck.errors import DeviceError, UsageError
from graphcheck.runtime.devices.board import _fastest
from graphcheck.runtime.devices.bundle import core_mask
from graphcheck.runtime.devices.host import train
from graphcheck.runtime.devices.interface import DeviceSettings, device, families
from graphcheck.runtime.wire import REQUEST_MAGIC

pytest.importorskip("adbutils", reason="adbutils is missing: pip install adbutils")

NAME = "adb:emulator-5554"
LONG = 1_000_000


@pytest.fixture
def server(tmp_path, monkeypatch):
    made = FakeAdb(tmp_path)
    monkeypatch.setenv("ANDROID_ADB_SERVER_HOST", "127.0.0.1")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(made.port))
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def phone(server, runner):
    """The device, with the runner of this machine."""
    return device(NAME, DeviceSettings(runner=runner))


def left(server):
    """What is left there but whole files, and runners that still run."""
    for _ in range(100):
        cache = server.folder / "graphcheck"
        files = [*cache.glob("jobs/*"), *(p for p in cache.glob("files/*") if len(p.name) != 64)]
        found = [*files, *_runners(server)]
        if not found:
            return []
        time.sleep(0.1)
    return found


def _runners(server):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (
                    os.readlink(entry / "cwd").startswith(str(server.folder))
                    and b"runner" in (entry / "cmdline").read_bytes().split(b"\0")[0]
                ):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_it_trains_as_this_machine_does(programs, server, phone):
    request = programs["healthy"].request(steps=3, detect_stale=True)
    here, there = train(request), phone.train(request)
    assert there.failure is None
    assert there.stale_checked
    assert [s.loss for s in there.steps] == [s.loss for s in here.steps]
    assert left(server) == []
    files = list((server.folder / "graphcheck" / "files").iterdir())
    assert len(files) == 1
    assert phone.train(request).failure is None
    assert list((server.folder / "graphcheck" / "files").iterdir()) == files


def test_a_failure_comes_with_its_log(programs, phone):
    request = programs["avg_pool"].request(steps=3)
    here, there = train(request).failure, phone.train(request).failure
    assert there.message == here.message
    assert there.op == here.op


def test_it_is_pinned_to_cores(programs, server, runner):
    if shutil.which("taskset") is None:
        pytest.skip("taskset is missing")
    phone = device(NAME, DeviceSettings(runner=runner, cores="0"))
    assert phone.train(programs["healthy"].request(steps=1)).failure is None
    assert any("taskset 1 ./runner request -" in command for command in server.commands)


def test_the_runner_is_killed(programs, server, phone):
    helper = in_the_middle(lambda: _runners(server), lambda pid: os.kill(pid, signal.SIGKILL))
    trace = phone.train(programs["healthy"].request(steps=LONG, record=False))
    helper.join()
    step = len(trace.steps)
    assert 0 < step < LONG
    assert trace.failure.message == f"the native runner was killed by SIGKILL, at step {step}"
    assert left(server) == []


def test_it_is_unplugged(programs, server, phone):
    helper = in_the_middle(lambda: _runners(server), lambda _: server.unplug())
    trace = phone.train(programs["healthy"].request(steps=LONG, record=False))
    helper.join()
    step = len(trace.steps)
    assert 0 < step < LONG
    assert (trace.failure.kind, trace.failure.stage) == ("device", f"step {step}")
    assert trace.failure.message == f"the connection to {NAME} was lost, at step {step}"
    assert left(server) == []


def test_it_has_no_space(programs, server, phone):
    server.space = 10_000
    with pytest.raises(DeviceError) as caught:
        phone.train(programs["healthy"].request(steps=1))
    assert caught.value.message == (
        f"{NAME} has no space left: files cannot be sent: couldn't write to file: "
        "No space left on device"
    )
    assert left(server) == []


def test_another_serial(programs, server, runner):
    with pytest.raises(DeviceError) as caught:
        device("adb:other", DeviceSettings(runner=runner)).train(programs["healthy"].request())
    assert caught.value.message == "adb:other: device 'other' not found"


@pytest.mark.parametrize(
    ("version", "endian", "wire", "message"),
    [
        ("0.9.0", "little", REQUEST_MAGIC.decode(), " has ExecuTorch 0.9.0, programs are made "),
        ("1.5.1", "big", REQUEST_MAGIC.decode(), " is big-endian: programs of ExecuTorch are "),
        ("1.5.1", "little", "GCREQ001", " is of another graphcheck (GCREQ001, this one speaks "),
    ],
)
def test_runners_that_do_not_fit(
    programs, server, compiler, tmp_path_factory, version, endian, wire, message
):
    folder = tmp_path_factory.mktemp("other")
    (folder / "main.cpp").write_text(
        '#include <cstdio>\nint main() { std::puts(R\'({"runner": "%s", "executorch": '
        '"%s", "endian": "%s"})\'); }'.replace("R'(", 'R"x(').replace(")')", ')x")')
        % (wire, version, endian)
    )
    words = [*compiler.command, str(folder / "main.cpp"), "-o", str(folder / "runner")]
    subprocess.run(words, check=True)
    phone = device(NAME, DeviceSettings(runner=folder / "runner"))
    with pytest.raises(DeviceError) as caught:
        phone.train(programs["healthy"].request(steps=1))
    assert message in caught.value.message
    assert left(server) == []


def test_a_file_that_was_cut_short_is_sent_again(programs, server, phone, runner):
    request = programs["healthy"].request(steps=1)
    phone.train(request)
    (file,) = (server.folder / "graphcheck" / "files").iterdir()
    file.write_bytes(b"short")
    again = device(NAME, DeviceSettings(runner=runner)).train(request)
    assert again.failure is None
    assert file.read_bytes() == runner.read_bytes()


@pytest.mark.parametrize(
    ("speeds", "mask"), [("0:1 1:1 4:2 5:2", 0x30), ("0:9 1:9", 0), ("", 0), ("0:x", 0)]
)
def test_the_fastest_cores(speeds, mask):
    assert _fastest(speeds) == mask


def test_what_the_server_knows(server):
    (seen,) = families()["adb"].seen()
    assert (seen.name, seen.detail) == (NAME, "device")


def test_no_runner_and_wrong_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(tmp_path))
    with pytest.raises(DeviceError, match="there is no runner for Android"):
        device(NAME).machine()
    (tmp_path / "text").write_text("no program")
    with pytest.raises(UsageError, match="is no program"):
        device(NAME, DeviceSettings(runner=tmp_path / "text")).machine()
    with pytest.raises(UsageError, match="this is no serial of a device"):
        device("adb:-x y")


@pytest.mark.parametrize(("cores", "mask"), [("0", 1), ("4-7", 0xF0), ("0,2-3", 0b1101)])
def test_cores(cores, mask):
    assert core_mask(cores) == mask
    with pytest.raises(UsageError, match="these are no cores"):
        core_mask(f"{cores},x")
