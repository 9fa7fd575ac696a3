"""`graphcheck model.pt2`: joint programs are judged as they are, forward ones are trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOADS = """
import sys, tempfile, torch
from pathlib import Path
from graphcheck.errors import ModelError
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.targets.interface import kind_of
for path in sys.argv[1:]:
    try:
        kind_of(path).load(WorkloadRequest(path))
        print("loaded")
    except ModelError as error:
        print(error.message)
"""


def command(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def reports(files, tmp_path_factory):
    """Reports on three programs and two that come to nothing, from one process."""
    code = """
import sys
from graphcheck.cli.main import run
folder, out, *names = sys.argv[1:]
for name in names:
    code = run([f"{folder}/{name}.pt2", "--opset", "executorch-1.5.1", "--output-format", "json",
                "-q", "-o", f"{out}/{name}.json"])
    print(name, code)
"""
    folder = tmp_path_factory.mktemp("reports")
    done = command(code, str(files), str(folder), "joint", "forward", "predicts")
    assert done.returncode == 0, done.stderr
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def test_a_joint_program_tells_what_its_forward_program_tells(reports):
    told = {
        name: [
            (f["code"], f["subject"], f["count"], sorted(f["gradients"])) for f in body["findings"]
        ]
        for name, body in reports.items()
    }
    assert told["joint"] == told["forward"]
    assert {subject for _, subject, _, _ in told["joint"]} == {
        "aten.max_pool2d_with_indices_backward"
    }
    assert reports["joint"]["parameters"] == 6
    assert reports["joint"]["backward_ops"] > 20


def test_lines_of_the_source_come_from_the_archive(reports):
    (finding, *_) = reports["forward"]["findings"]
    assert Path(finding["source"]["file"]).name == "build_artefacts.py"
    assert "F.max_pool2d" in finding["source"]["code"]


def test_modules_of_a_joint_program_are_those_of_the_nearest_weights(reports):
    (finding, *_) = reports["joint"]["findings"]
    assert finding["modules"] == ["after conv2", "after conv1"]
    assert reports["joint"]["guesses"] == [
        "Modules, since torch.export saves a joint program without modules and lines of the "
        "source: each is that of the weight an op reads, or of the one before it. The forward "
        "program has them."
    ]
    assert not any("Modules" in line for line in reports["forward"]["guesses"])


def test_a_program_without_loss_is_given_one(reports):
    body = reports["predicts"]
    assert any("no loss was given; cross_entropy was used" in line for line in body["guesses"])
    assert {f["code"] for f in body["findings"]} >= {"GC102", "GC501"}


def test_pickles_do_not_run(files, tmp_path):
    """Each place from which torch unpickles holds a pickle that would leave a file."""
    witness = tmp_path / "witness"
    make = """
import json, os, sys, zipfile, torch
source, folder, witness = sys.argv[1:]
class Evil:
    def __reduce__(self):
        return (os.system, (f"touch {witness}",))
torch.save((Evil(),), f"{folder}/evil.pt")
evil = open(f"{folder}/evil.pt", "rb").read()
with zipfile.ZipFile(source) as archive:
    entries = {info.filename: archive.read(info) for info in archive.infolist()}
name = "forward/data/weights/model_weights_config.json"
config = json.loads(entries[name])
config["config"]["conv1.weight"]["use_pickle"] = True
changes = {
    "weights": {name: json.dumps(config).encode(), "forward/data/weights/weight_0": evil},
    "inputs": {"forward/data/sample_inputs/model.pt": evil},
}
for name, change in changes.items():
    with zipfile.ZipFile(f"{folder}/{name}.pt2", "w") as archive:
        for entry, data in {**entries, **change}.items():
            archive.writestr(entry, data)
    try:
        torch.export.load(f"{folder}/{name}.pt2")
    except Exception:
        pass
    # It is really dangerous: torch's own loading runs the code.
    print(os.path.exists(witness))
    os.remove(witness)
"""
    made = command(make, str(files / "forward.pt2"), str(tmp_path), str(witness))
    assert made.stdout.splitlines()[-2:] == ["True", "True"], made.stderr
    paths = [str(tmp_path / "weights.pt2"), str(tmp_path / "inputs.pt2")]
    done = command(LOADS, *paths, str(files / "forward.pt2"))
    told = done.stdout.splitlines()
    assert told[2] == "loaded", done.stderr
    for path, line in zip(paths, told, strict=False):
        assert line == (
            f"{path} holds pickled objects that are no plain tensors, which would run code."
        )
    assert not witness.exists()


def test_other_verbs_say_what_they_can_do(files, tmp_path):
    done = command(
        "import sys\nfrom graphcheck.cli.main import run\n"
        "sys.exit(run(['export', sys.argv[1], '-o', sys.argv[2]]))",
        str(files / "tiny.pte"),
        str(tmp_path / "out.pte"),
    )
    assert done.returncode == 3
    assert "is a lowered program, of which no model can be made again." in done.stdout + done.stderr
