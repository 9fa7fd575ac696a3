"""`graphcheck device`, and the options of validate that name devices, optimizers and data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_stub import make_verdict


def test_the_list(command):
    rows = json.loads(command("device", "list", "--json").out)
    names = [row["name"] for row in rows]
    assert names[:2] == ["host", "qemu-aarch64"]
    assert {"adb:SERIAL", "ssh:user@host[:port]"} <= set(names)
    assert all(row["state"] and row["what"] for row in rows)
    assert command("device", "list").out.startswith("device ")


def test_a_dry_run_prints_the_commands(command, folder):
    header = folder / "et" / "runtime" / "executor" / "method.h"
    header.parent.mkdir(parents=True)
    header.touch()
    done = command("device", "build", "--executorch", "et", "--dry-run")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == "# configure ExecuTorch"
    assert "--target install" in lines[3]
    assert lines[-1] == f"# copy {lines[-1].split()[2]} to {folder / 'runner'}"
    assert not (folder / "runner").exists()


def test_no_executorch(command):
    done = command("device", "build", "--executorch", "nothing")
    assert done.code == 2
    assert "nothing: this is no ExecuTorch: it has neither " in done.err


def test_what_is_asked_for(command, api):
    api.answer = make_verdict("match")
    command("validate", "model.py", "--on", "host, qemu-aarch64", "--on", "ssh:pi@board:2222")
    assert api.asked[-1].on == ("host", "qemu-aarch64", "ssh:pi@board:2222")
    assert not api.asked[-1].require
    words = (
        "--optimizer",
        "adamw",
        "--weight-decay",
        "0.1",
        "--betas",
        "0.8,0.99",
        "--eps",
        "1e-6",
    )
    command("validate", "model.py", *words, "--require", "--resume", "--data", "x.npz")
    options = api.asked[-1]
    assert (options.optimizer, options.weight_decay, options.eps) == ("adamw", 0.1, 1e-6)
    assert (options.betas, options.learning_rate) == ((0.8, 0.99), 0.001)
    assert (options.require, options.resume, options.data) == (True, True, "x.npz")
    command("validate", "model.py", "--on", "adb:abc", "--cores", "4-7", "--runner", "model.py")
    assert (api.asked[-1].cores, api.asked[-1].runner) == ("4-7", str(Path("model.py").absolute()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--on", "moon"),
            "graphcheck: error: no such device: 'moon'\nnext: There are host, qemu-aarch64, "
            "adb:SERIAL, ssh:user@host[:port]; graphcheck device list says what each needs.\n",
        ),
        (("--on", "hots"), "\nnext: Did you mean host? There are host, qemu-aarch64, "),
        (
            ("--runner", "nosuch"),
            "graphcheck: error: --runner nosuch: there is no such file.\n"
            "next: graphcheck device build makes one.\n",
        ),
        (
            ("--runner", "model.py"),
            "graphcheck: error: --runner model.py: host would not use it.\nnext: Leave it out, or "
            "name the device that it is for: --on adb:SERIAL or --on ssh:user@host[:port].\n",
        ),
        (
            ("--on", "host,qemu-aarch64", "--cores", "4-7"),
            "graphcheck: error: --cores 4-7: host and qemu-aarch64 would not use it.\n",
        ),
        (("--on", "ssh:-oProxyCommand=x"), "ssh:-oProxyCommand=x: this is no address of a board"),
        (("--on", "ssh:a", "--cores", "x"), "--cores x: these are no cores."),
        (("--betas", "0.9"), "--betas 0.9: these are not two numbers."),
    ],
)
def test_wrong_words(command, words, message):
    done = command("validate", "model.py", *words)
    assert done.code == 2
    assert message in done.err
