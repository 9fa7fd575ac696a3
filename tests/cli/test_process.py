"""The command as a process: what it imports, pipes, signals, terminals."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

_HEAVY = ("torch", "torchvision", "executorch", "numpy", "rich")


def python(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["rule"],
        ["rule", "GC301"],
        ["advisory", "list"],
        ["advisory", "show", "GCA-2026-0001"],
        ["opset", "list"],
        ["nonsense"],
        ["missing.py"],
    ],
)
def test_does_not_import_torch(arguments: list[str], tmp_path: Path) -> None:
    ended = python(
        f"""
        import sys
        from graphcheck.cli.main import run
        run({arguments!r})
        print([name for name in {_HEAVY!r} if name in sys.modules], file=sys.stderr)
        """,
        cwd=tmp_path,
    )
    assert ended.stderr.splitlines()[-1] == "[]"


def test_doctor_and_check_import_torch_in_a_child_only(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("raise SystemExit(3)\n")
    ended = python(
        f"""
        import sys
        from graphcheck.cli import diagnosis
        from graphcheck.cli.main import run
        from graphcheck.cli.diagnosis import RuntimeFacts
        diagnosis._ask = lambda training: RuntimeFacts(kernels=("aten::add.out",))
        codes = run(["doctor"]), run(["model.py"])
        heavy = [name for name in {_HEAVY!r} if name in sys.modules]
        print(codes[1], heavy, file=sys.stderr)
        """,
        cwd=tmp_path,
    )
    assert ended.stderr.splitlines()[-1] == "3 []"


def test_a_closed_pipe_is_quiet() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "graphcheck", "opset", "show"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_a_model_hangs(number: signal.Signals, tmp_path: Path) -> None:
    started = tmp_path / "started"
    (tmp_path / "model.py").write_text(
        f"import os, time\nopen({str(started)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "graphcheck", "model.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        # A shell that runs the tests in the background has told them to ignore SIGINT.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 90
    while not (started.is_file() and started.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    out, complaint = process.communicate(timeout=60)
    assert (process.returncode, out, complaint) == (130, "", "graphcheck: error: interrupted\n")
    assert _is_gone(int(started.read_text()))


def test_interrupted_while_it_is_imported() -> None:
    ended = python(
        """
        import sys

        class Interrupting:
            def find_spec(self, name, *_):
                if name == "typer":
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Interrupting())
        from graphcheck.__main__ import main
        main()
        """
    )
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "graphcheck: error: interrupted\n"


def _is_gone(process: int) -> bool:
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def on_terminal(arguments: list[str], columns: int, **environment: str) -> str:
    """What a terminal of this width is sent."""
    leader, follower = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **environment}
    env.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
    process = subprocess.Popen(
        [sys.executable, "-m", "graphcheck", *arguments], stdout=follower, stderr=follower, env=env
    )
    os.close(follower)
    sent = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            data = os.read(leader, 65536)
        except OSError:
            break
        if not data:
            break
        sent += data
    os.close(leader)
    assert process.wait(timeout=60) == 0
    return sent.decode().replace("\r\n", "\n")


def test_terminal_width_and_colours() -> None:
    text = on_terminal(["rule"], 80)
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= 80
    assert on_terminal(["rule"], 80, NO_COLOR="1") == plain


def test_a_pipe_gets_no_colours() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "graphcheck", "rule"], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in ended.stdout


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    ended = python(
        """
        import graphcheck.api
        from graphcheck.cli.main import run
        from graphcheck.validate.types import Verdict
        graphcheck.api.validate_target = lambda options, progress: Verdict(
            "model.py", "match", "caf\\u00e9", losses=(1.0, 2.0), eager_losses=(1.0, 2.0))
        run(["validate", "model.py"])
        """,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        cwd=_with_model(tmp_path),
    )
    assert ended.stderr == ""
    assert "runtime  _#  1 -> 2" in ended.stdout
    assert "caf\\xe9" in ended.stdout


def _with_model(folder: Path) -> Path:
    (folder / "model.py").write_text("")
    return folder
