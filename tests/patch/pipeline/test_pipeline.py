"""The example pipelines do what they say, as far as a machine without their hosts can."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "pipeline"
TREE = ROOT / "tests" / "patch" / "source" / "executorch_tree"
MODEL = ROOT / "examples" / "cifar_cnn.py"
POOL = "kernels/portable/cpu/op_max_pool2d_with_indices_backward.cpp"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One in which `graphcheck` is a command."""
    command = tmp_path / "bin" / "graphcheck"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphcheck "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def test_the_shell_pipeline(tmp_path: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("executorch")
    tree, out = tmp_path / "tree", tmp_path / "out"
    shutil.copytree(TREE, tree)
    done = subprocess.run(
        ["bash", str(EXAMPLES / "patched_runtime.sh"), str(tree), str(MODEL), str(out)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ExecuTorch 1.2.3: 14 applied." in done.stdout
    assert b"memset" in (tree / POOL).read_bytes()
    findings = json.loads((out / "report.json").read_text())["findings"]
    (pool,) = [finding for finding in findings if finding["code"] == "GC301"]
    assert pool["severity"] == "note"
    assert "mitigated by patch: max_pool2d_with_indices_backward is in the source" in str(pool)


def test_the_shell_pipeline_stops_at_a_conflict(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    shutil.copytree(TREE, tree)
    (tree / POOL).write_text("int max_pool_backward_impl(int a) { return a; }\n")
    done = subprocess.run(
        ["bash", str(EXAMPLES / "patched_runtime.sh"), str(tree), str(MODEL), str(out)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "does not fit" in done.stderr
    assert not (out / "stamp.json").exists()


def test_the_steps_of_the_workflow(tmp_path: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("executorch")
    workflow = yaml.safe_load((EXAMPLES / "graphcheck.yml").read_text())
    shutil.copytree(TREE, tmp_path / workflow["env"]["TREE"])
    shutil.copy(MODEL, tmp_path / workflow["env"]["MODEL"])
    steps = workflow["jobs"]["trainable"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    runs = {step["name"]: step["run"] for step in steps if "run" in step}
    assert runs.pop("Install") == "pip install graphcheck"
    told = {}
    for name, command in runs.items():
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", command],
            cwd=tmp_path,
            env={**environment, **workflow["env"]},
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, (name, done.stdout, done.stderr)
        told[name] = done.stdout
    assert "14 needed" in told["Which patches the tree needs"]
    assert "15 files changed" in told["Patch the kernels"]
    assert "14 applied" in told["Every patch is there"]
    assert (tmp_path / "stamp.json").is_file()


def test_the_commands_of_the_readme(tmp_path: Path, environment: dict[str, str]) -> None:
    readme = (ROOT / "README.md").read_text()
    tree = tmp_path / "third-party" / "executorch"
    shutil.copytree(TREE, tree)
    commands = re.findall(r"^\$ (graphcheck patch \w+ --source .*)$", readme, re.M)
    assert [command.split()[2] for command in commands] == ["status", "apply", "revert"]
    for command in commands:
        done = subprocess.run(
            command.split(), cwd=tmp_path, env=environment, capture_output=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "patched.json").is_file()
    for path in TREE.rglob("*.cpp"):
        assert (tree / path.relative_to(TREE)).read_bytes() == path.read_bytes()
