"""The ssh device against a real sshd on loopback: agreement, what stays there, what goes wrong."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import numpy
import pytest
from middle import in_the_middle
from sshd import sshd

from graphcheck.errors import DeviceError, UsageError
from graphcheck.process import CommandResult
from graphcheck.runtime.devices import job
from graphcheck.runtime.devices.host import train
from graphcheck.runtime.devices.interface import device

__all__ = ["sshd"]

LONG = 1_000_000


@pytest.fixture
def board(sshd, compiler):
    return device(sshd.name)


def settled(sshd):
    """What is left once the board had a moment to notice."""
    for _ in range(100):
        if not sshd.runners() and not sshd.left():
            return []
        time.sleep(0.1)
    return [*map(str, sshd.runners()), *sshd.left()]


def test_a_board_trains_as_this_machine_does(programs, sshd, board):
    request = programs["healthy"].request(steps=3, detect_stale=True)
    here, there = train(request), board.train(request)
    assert there.failure is None
    assert there.stale_checked
    assert [s.loss for s in there.steps] == [s.loss for s in here.steps]
    for one, other in zip(here.steps, there.steps, strict=True):
        for name, gradient in one.gradients.items():
            assert numpy.array_equal(gradient, other.gradients[name])
    assert there.peak_bytes > there.start_bytes > 0
    assert there.arena_bytes == here.arena_bytes
    assert settled(sshd) == []


def test_libraries_are_sent_once(programs, sshd, board, monkeypatch):
    request = programs["healthy"].request(steps=1)
    board.train(request)
    sent = []
    link = type(board.board.link)
    send = link.send
    monkeypatch.setattr(
        link, "send", lambda self, files, *more: sent.append(set(files)) or send(self, files, *more)
    )
    assert device(sshd.name).train(request).failure is None
    assert sent == [{"program.pte", "request"}]


def test_a_result_is_kept_and_taken_again(programs, board, monkeypatch, tmp_path):
    monkeypatch.setattr(job, "cache_dir", lambda *_: tmp_path)
    request = programs["healthy"].request(steps=2, keep=True)
    first = board.train(request)
    with monkeypatch.context() as patch:
        patch.setattr(type(board.board.link), "stream", None)
        again = board.train(replace(request, resume=True))
    assert again.resumed
    assert [s.loss for s in again.steps] == [s.loss for s in first.steps]
    assert not board.train(replace(request, resume=True, learning_rate=0.02)).resumed


def test_the_runner_is_killed(programs, sshd, board):
    helper = in_the_middle(sshd.runners, lambda pid: os.kill(pid, signal.SIGKILL))
    trace = board.train(programs["healthy"].request(steps=LONG, record=False))
    helper.join()
    step = len(trace.steps)
    assert 0 < step < LONG
    assert trace.failure.kind == "device"
    assert trace.failure.stage == f"step {step}"
    assert trace.failure.message == f"the native runner was killed by SIGKILL, at step {step}"
    assert settled(sshd) == []


def test_the_connection_is_killed(programs, sshd, board):
    def kill_connection(_):
        for pid in sshd.processes(sshd.folder, b"/ssh"):
            os.kill(pid, signal.SIGKILL)

    helper = in_the_middle(sshd.runners, kill_connection)
    trace = board.train(programs["healthy"].request(steps=LONG, record=False))
    helper.join()
    step = len(trace.steps)
    assert 0 < step < LONG
    assert trace.failure.kind == "device"
    assert trace.failure.stage == f"step {step}"
    assert trace.failure.message == (
        f"the connection to {sshd.name} was lost: ssh was killed by SIGKILL, at step {step}"
    )
    assert settled(sshd) == []


@pytest.mark.parametrize(
    ("code", "output", "reason"),
    [
        (-9, "", "the program that connects to it was killed by SIGKILL"),
        (71, "", "exited with code 71, and gave no reason"),
        (71, "mkdir: x: Permission denied\n", "mkdir: x: Permission denied"),
        (1, "mkdir: x: No space left on device\n", None),
    ],
)
def test_a_folder_that_is_not_made(programs, board, monkeypatch, code, output, reason):
    board.train(programs["healthy"].request(steps=1))
    link = type(board.board.link)
    shell = link.shell

    def failing(self, script, timeout):
        if "\nmkdir " in script:
            return CommandResult(code, output, 0.1)
        return shell(self, script, timeout)

    monkeypatch.setattr(link, "shell", failing)
    with pytest.raises(DeviceError) as caught:
        board.train(programs["healthy"].request(steps=1))
    cannot = "a folder for the run cannot be made"
    full = f" has no space left: {cannot}: mkdir: x: No space left on device"
    assert caught.value.message == board.name + (f": {cannot}: {reason}" if reason else full)


def test_a_run_that_takes_too_long(programs, sshd, board):
    trace = board.train(programs["healthy"].request(steps=LONG, record=False, timeout=1.0))
    assert 0 < len(trace.steps) < LONG
    assert trace.failure.kind == "hang"
    assert trace.failure.message.startswith("the runtime did not end within 1 s; it was in ")
    assert settled(sshd) == []


def test_a_full_disk_there(programs, sshd, compiler):
    sshd.stop()
    for path in (sshd.cache / "graphcheck" / "files").glob("*"):
        path.unlink()
    sshd.start(limit=64)
    try:
        with pytest.raises(DeviceError, match="files cannot be sent"):
            device(sshd.name).train(programs["healthy"].request(steps=2))
    finally:
        sshd.stop()
        sshd.start()
    assert settled(sshd) == []


def test_a_board_without_sftp(programs, sshd, compiler):
    sshd.stop()
    sshd.start(sftp=False)
    try:
        assert device(sshd.name).train(programs["healthy"].request(steps=1)).failure is None
    finally:
        sshd.stop()
        sshd.start()
    assert settled(sshd) == []


def test_a_board_that_is_not_there(programs, sshd):
    with pytest.raises(DeviceError) as caught:
        device("ssh:nobody@127.0.0.1:1").train(programs["healthy"].request(steps=2))
    assert caught.value.message == (
        "ssh:nobody@127.0.0.1:1 cannot be reached: ssh: connect to host 127.0.0.1 port 1: "
        "Connection refused"
    )


@pytest.mark.parametrize(
    "address", ["", "-oProxyCommand=x", "a b", "user@", "host:0", "host:99999", "u@-h", "x;y"]
)
def test_addresses_that_cannot_be(address):
    with pytest.raises(UsageError, match="this is no address of a board"):
        device(f"ssh:{address}")
