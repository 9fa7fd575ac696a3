"""`graphcheck model.pte`: what is told of a program, and that it needs no torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest

from graphcheck.advisory.load import all_advisories
from graphcheck.artefacts.calls import graph_of, tensor_fact
from graphcheck.artefacts.check import _undecided, check_program
from graphcheck.artefacts.library import build_command, with_library
from graphcheck.cli.main import run as main
from graphcheck.errors import ModelError, UsageError
from graphcheck.graph.pte import read_pte
from graphcheck.graph.signatures import signature_of
from graphcheck.opset.load import load
from graphcheck.options import CheckOptions
from graphcheck.rules.types import Finding, Severity

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "torchvision", "executorch", "numpy", "rich", "flatbuffers")


@pytest.fixture
def report(files):
    def check(name: str, **options):
        options.setdefault("opset", "executorch-1.5.1")
        return check_program(CheckOptions(str(files / name), **options))

    return check


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys, monkeypatch):
    """The command, in this process."""

    def command(*arguments: str, cwd: Path | None = None) -> Ended:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        capsys.readouterr()
        code = main(arguments)
        return Ended(int(code), *capsys.readouterr())

    return command


def test_signatures_are_those_of_the_installed_torch(files):
    shipped = (ROOT / "graphcheck" / "graph" / "signatures.txt").read_text()
    assert shipped == (files / "signatures.txt").read_text()


def test_a_signature_names_op_and_arguments():
    found = signature_of("aten::max_pool2d_with_indices_backward.grad_input")
    assert found is not None
    assert (found.op, found.overload) == ("aten.max_pool2d_with_indices_backward", "default")
    assert found.arguments[:2] == ("grad_output", "self")
    assert found.outs == ("grad_input",)
    assert signature_of("mine::add.out") is None


def test_a_faulty_program(report):
    found = report("faulty.pte")
    told = [(f.code, f.subject, f.severity.value) for f in found.findings]
    assert told == [
        ("GC101", "aten.avg_pool2d_backward", "error"),
        ("GC501", "training metadata of forward", "error"),
        ("GC501", "initial state", "warning"),
    ]
    missing, shifted, lost = found.findings
    assert missing.gradients == ("a.weight", "b.weight")
    assert missing.module.startswith("instruction ")
    assert missing.evidence[0] == f"{missing.module} of forward"
    assert shifted.evidence[0].startswith("2 names, ")
    assert found.guesses == (
        "Modules, since a program file names instructions, but no modules or lines of the source: "
        "each is that of the weight an instruction reads, or of the one before it.",
    )
    assert shifted.message == (
        "says that gradients start at output 2 and parameters at 4; they start at 1 and 3, so "
        "each name gets another's gradient"
    )
    assert lost.message == (
        "of 1 buffer is not in the file: it starts with what the app's memory holds"
    )
    (method,) = found.artefact.methods
    assert method.training.parameters == ("a.weight", "b.weight")
    assert (method.training.shift, method.state) == (1, 512)
    assert found.next_command == "graphcheck export MODEL.py -o faulty.pte"


def test_a_kernel_of_the_library_is_named(report):
    """Only where it is all that a program needs: its metadata no library mends."""
    found = report("faulty.pte", ignore=("GC501",))
    (missing,) = found.findings
    mend = missing.mends[-1]
    assert (mend.kind, mend.name, mend.exact) == ("patch", "avg_pool2d_backward", True)
    assert mend.description == (
        "a library with this kernel, which --kernel-library kernels/libgraphcheck_kernels.so names "
        "then"
    )
    command = "graphcheck patch build --op avg_pool2d_backward -o kernels"
    assert (mend.command, found.next_command) == (command, command)
    assert report("faulty.pte").next_command == "graphcheck export MODEL.py -o faulty.pte"


def test_a_library_for_another_release_names_its_tree(report):
    found = report("faulty.pte", ignore=("GC501",), opset="executorch==1.3.1")
    (missing,) = [finding for finding in found.findings if finding.code == "GC101"]
    mend = missing.mends[-1]
    assert mend.description == (
        "a library with this kernel, built against the sources or an install of executorch 1.3.1, "
        "which --kernel-library kernels/libgraphcheck_kernels.so names then"
    )
    command = (
        "graphcheck patch build --op avg_pool2d_backward --target DIR_OF_EXECUTORCH_1.3.1 "
        "-o kernels"
    )
    assert (mend.command, found.next_command) == (command, command)


def test_a_library_for_another_build_of_the_installed_release_names_none(report):
    found = report("faulty.pte", ignore=("GC501",), opset="executorch==1.5.1:portable")
    assert "--target" not in found.next_command
    assert found.next_command.startswith("graphcheck patch build ")


def test_a_kernel_that_no_library_of_graphcheck_has_is_not_promised():
    missing = Finding("GC101", Severity.ERROR, "op", "has no kernel", nodes=("forward:3",))
    ours = with_library(missing, {"forward:3": "graphcheck::batch_norm_training.out"})
    assert build_command([ours]) == "graphcheck patch build --op batch_norm_training -o kernels"
    other = with_library(missing, {"forward:3": "mine::gelu.out"})
    assert (other, build_command([other])) == (missing, "")
    assert build_command([ours, other]) == ""
    wrong = replace(missing, code="GC301", advisory="GCA-2026-0001")
    pool = {"forward:3": "aten::max_pool2d_with_indices_backward.grad_input"}
    mended = with_library(wrong, pool)
    assert [mend.name for mend in mended.mends] == ["max_pool2d_with_indices_backward"]
    assert with_library(replace(wrong, advisory="GCA-2026-0002"), pool).mends == ()
    # A wrong kernel alone is for the model's export; with a missing one, one library does both.
    assert build_command([mended]) == ""
    assert build_command([mended, ours]) == (
        "graphcheck patch build --op batch_norm_training --op max_pool2d_with_indices_backward "
        "-o kernels"
    )


def test_pools_are_wrong_where_they_reach_a_gradient(report):
    found = report("pools.pte")
    (pool,) = [f for f in found.findings if f.severity.value != "note"]
    # No probe ran, so that the version decides.
    assert (pool.code, pool.subject) == ("GC302", "aten.max_pool2d_with_indices_backward")
    assert pool.count == 2
    first, second = (node.removeprefix("forward:") for node in pool.nodes)
    assert pool.evidence[0] == f"instructions {first} and {second} of forward"
    assert pool.gradients == ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias")
    assert {"conv1", "conv2", "fc"} <= {
        call.source.module for call in graph_of(read_pte(found.target), load("1.5.1")).calls
    }


def test_a_program_tells_what_a_model_tells(files, report):
    """Gradients that an op reaches: those of the joint graph, found without it."""
    joint = json.loads((files / "pools.reach.json").read_text())
    calls = graph_of(read_pte(files / "pools.pte"), load("executorch-1.5.1")).calls
    for op in ("convolution", "convolution_backward", "mm", "addmm", "_log_softmax"):
        ours = sorted(sorted(c.gradients) for c in calls if c.op == f"aten.{op}")
        assert ours == joint[op], op
        backward = [c.backward for c in calls if c.op == f"aten.{op}"]
        assert set(backward) == ({True} if op in ("convolution_backward", "mm") else {False})


def test_delegates_are_named_and_not_checked(report):
    found = report("delegated.pte")
    (method,) = found.artefact.methods
    (delegate,) = method.delegates
    assert (delegate.backend, delegate.calls) == ("XnnpackBackend", 1)
    assert delegate.size > 100
    assert [n.what for n in found.not_checked] == ["XnnpackBackend in forward"]
    assert found.not_checked[0].why.endswith("that a backend runs; a file does not tell how")
    assert method.training is None


def test_data_in_another_file_is_named(report, files, run):
    (method,) = report("outside.pte").artefact.methods
    assert {"fc.weight", "fc.bias", "norm.weight"} <= set(method.external_names)
    text = run(str(files / "outside.pte")).stdout
    assert f"forward needs a .ptd file with {method.external} bytes of data: " in text
    with pytest.raises(ModelError, match=r"is a \.ptd file, the data of a program"):
        read_pte(files / "outside.ptd")


def test_what_the_file_does_not_tell_is_not_checked(files):
    opset = load("executorch-1.5.1")
    graph = graph_of(read_pte(files / "pools.pte"), opset)
    assert not list(_undecided(graph, opset, all_advisories()))
    known = next(call for call in graph.calls if call.op == "aten.sum")
    unknown = replace(known, arguments={})
    told = list(_undecided(replace(graph, calls=(known, unknown)), opset, all_advisories()))
    assert {entry.what for entry in told} == {"aten.sum (x1)"}
    assert any(
        entry.why.startswith("its arguments are known at run time only: GCA-2026-0012 (")
        for entry in told
    )


def test_sizes_of_a_dynamic_tensor_are_not_known(files):
    program = read_pte(files / "pools.pte")
    value = program.method().values[program.method().inputs[0]]
    assert tensor_fact(value).shape == (2, 1, 16, 16)
    assert tensor_fact(value).stride == (256, 256, 16, 1)
    dynamic = tensor_fact(replace(value, dynamism="bound"))
    assert dynamic.shape == ("<=2", "<=1", "<=16", "<=16")
    assert dynamic.dim_order == (0, 1, 2, 3)


def test_another_runtime_and_an_unknown_one(report):
    with pytest.raises(UsageError, match=r"9\.9\.9"):
        report("tiny.pte", opset="executorch-9.9.9")


def test_findings_can_be_silenced(report):
    found = report("faulty.pte", ignore=("GC501",))
    assert [f.code for f in found.findings] == ["GC101"]
    assert {entry.finding.code for entry in found.suppressed} == {"GC501"}


def test_nothing_heavy_is_imported(files, tmp_path):
    shutil.copy(files / "faulty.pte", tmp_path)
    code = f"""
import sys
from graphcheck.cli.main import run
codes = [run(["faulty.pte"]), run(["oplist", "faulty.pte"]), run(["memory", "faulty.pte"])]
print(codes, [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.stderr.splitlines()[-1] == "[1, 0, 0] []"


def test_it_needs_no_runtime(files, tmp_path):
    """As on a machine without executorch and torch: the newest known runtime is taken."""
    code = f"""
import importlib.metadata, importlib.util, sys
version, spec = importlib.metadata.version, importlib.util.find_spec
def without(name, *rest):
    if name in ("torch", "executorch"):
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name, *rest)
importlib.metadata.version = without
importlib.util.find_spec = lambda name, *a: None if name == "executorch" else spec(name, *a)
from graphcheck.cli.main import run
sys.exit(run([{str(files / "tiny.pte")!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No runtime is installed here; the program is judged against executorch-" in done.stdout
    assert "torch not installed, executorch not installed" in done.stdout


def test_memory_stays_small_for_a_large_file(files, tmp_path):
    """50 MB of weights behind the program are neither loaded nor looked at."""
    large = tmp_path / "large.pte"
    shutil.copy(files / "pools.pte", large)
    with large.open("ab") as stream:
        stream.truncate(50_000_000)
    code = f"""
from graphcheck.cli.main import run
assert run([{str(large)!r}]) == 1
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert int(done.stdout.split()[-1]) < 100
    assert "file 50 MB" in done.stdout


def test_json_has_the_committed_schema(files, run):
    done = run(str(files / "faulty.pte"), "--output-format", "json", "--opset", "1.5.1")
    assert done.returncode == 1
    body = json.loads(done.stdout)
    schema = ROOT / "graphcheck" / "report" / "schema" / "report-1.json"
    jsonschema.validate(body, json.loads(schema.read_text()))
    assert body["artefact"]["methods"][0]["training"]["shift"] == 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**body, "artefact": {"size": 1}}, json.loads(schema.read_text()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p.write_bytes(b""), "model.pte is empty, not an ExecuTorch program"),
        (lambda p: p.mkdir(), "model.pte is a folder, not an ExecuTorch program"),
        (
            lambda p: p.write_bytes(b"\x00" * 8),
            "model.pte is not an ExecuTorch program (its bytes 4 to 8 are not 'ET12')",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["check", "oplist", "memory"])
def test_files_that_are_no_program_end_with_3(tmp_path, verb, make, message, run):
    make(tmp_path / "model.pte")
    done = run(verb, "model.pte", cwd=tmp_path)
    assert done.returncode == 3
    assert message in done.stdout + done.stderr
    assert "Give the .pte file that to_executorch() wrote." in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_text_of_a_program(files, tmp_path, run):
    shutil.copy(files / "faulty.pte", tmp_path)
    shown = run("faulty.pte", "--opset", "executorch-1.5.1", cwd=tmp_path).stdout
    assert shown.startswith(
        "ExecuTorch program (ET12)\n"
        "    file 10.4 kB, instructions 9.66 kB, initial weights and buffers 512 bytes, "
        "constants 24 bytes\n"
        "    method forward, training: 37 instructions, 19 operators\n"
        "    forward takes float32[4,8]; gives 5 outputs\n"
        "    forward plans memory 1 1.84 kB, of which 512 bytes are weights and buffers; "
        "12 bytes of constants in the file\n"
        "    forward trains 2 parameters (a.weight and b.weight); the file says from outputs 2 "
        "and 4 on, which is 1 too far\n"
    )
