"""The README's commands do what it says, and its sample output is real."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", README, re.S)
    for line in block.splitlines()
]


def run(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = command.split()
    assert words[0] == "graphcheck"
    return subprocess.run(
        [sys.executable, "-m", "graphcheck", *words[1:]],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def test_set_up_is_two_commands_and_installs_what_pyproject_declares() -> None:
    set_up = COMMANDS[:2]
    assert set_up[0].startswith("python3.11 -m venv")
    assert set_up[1] == "pip install -e '.[dev]'"
    assert (
        "dev"
        in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )


def test_the_gate_runs_the_test_command_of_the_readme() -> None:
    (test_command,) = [command for command in COMMANDS if "pytest" in command]
    assert test_command in (ROOT / ".ci" / "run").read_text()


def test_the_main_job_prints_what_the_readme_shows() -> None:
    pytest.importorskip("executorch")
    done = run("graphcheck examples/cifar_cnn.py", ROOT)
    assert done.returncode == 1
    shown = re.search(r"```text\n(.*?)```", README, re.S)
    assert shown is not None
    # Figures that were measured on another machine may differ in their last digits.
    assert _without_measured(done.stdout) == _without_measured(shown[1])


def _without_measured(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if "measured here" not in line]


@pytest.mark.parametrize(
    ("command", "code"),
    [("graphcheck rule GC301", 0), ("graphcheck advisory list", 0), ("graphcheck device list", 0)],
)
def test_commands_in_the_text_run(command: str, code: int) -> None:
    assert f"`{command}`" in README or command in COMMANDS
    assert run(command, ROOT).returncode == code


def test_the_table_of_releases_is_what_opset_list_says() -> None:
    shown = re.findall(r"^\| (\d+\.\d+\.\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", README, re.M)
    done = run("graphcheck opset list --json", ROOT)
    keys = ("kernels", "portable", "optimized", "quantized")
    rows = [(row["version"], *(str(row[key]) for key in keys)) for row in json.loads(done.stdout)]
    assert shown == rows


def test_commands_on_other_releases_run(tmp_path: Path) -> None:
    commands = [
        c for c in COMMANDS if c.startswith(("graphcheck opset", "graphcheck advisory export"))
    ]
    assert len(commands) == 4
    for command in commands:
        assert run(command, tmp_path).returncode == 0, command
    pytest.importorskip("executorch")
    (check,) = [command for command in COMMANDS if "--target executorch==" in command]
    done = run(check, ROOT)
    assert done.returncode == 1
    assert "measured on executorch 1.3.1 for this advisory, NOT on this machine" in done.stdout
    assert "executorch 1.3.1 with portable kernels itself: the installed runtime is" in done.stdout
