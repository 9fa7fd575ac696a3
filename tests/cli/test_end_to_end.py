"""The whole way, on the real API: one model with suppressions, one with an own kernel library."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import graphcheck.report
from graphcheck.cli.main import run
from graphcheck.errors import DeviceError
from graphcheck.runtime.libraries import find_libraries
from graphcheck.runtime.toolchain import compile_library, find_compiler

pytest.importorskip("torch")
pytest.importorskip("executorch")

_MODELS = Path(__file__).parents[1] / "models"
_SCHEMA = Path(graphcheck.report.__file__).parent / "schema" / "report-1.json"


def test_suppressed_in_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (_MODELS / "seed_cnn.py").read_text()
    pool = "self.pool1 = nn.MaxPool2d(2)"
    conv = "self.conv1 = nn.Conv2d(3, 8, 3, padding=1)"
    assert pool in text
    assert conv in text
    text = text.replace(pool, f"{pool}  # graphcheck: ignore[GC3] replaced on our devices")
    text = text.replace(conv, f"{conv}  # graphcheck: ignore[GC101]")
    (tmp_path / "net.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert run(["net.py", "--output-format", "json", "--ignore", "GC6"]) == 1
    body = json.loads(capsys.readouterr().out)
    jsonschema.validate(body, json.loads(_SCHEMA.read_text()))
    kept = [(f["code"], f["subject"], f["modules"]) for f in body["findings"]]
    assert kept == [("GC301", "aten.max_pool2d_with_indices_backward", ["pool2"])]
    silenced = {(s["finding"]["code"], s["by"].split(" ")[0]): s for s in body["suppressed"]}
    assert silenced["GC301", "comment"]["finding"]["modules"] == ["pool1"]
    assert silenced["GC301", "comment"]["reason"] == "replaced on our devices"
    assert ("GC601", "ignore") in silenced
    assert [u["comment"] for u in body["unused_suppressions"]] == ["# graphcheck: ignore[GC101]"]


@pytest.fixture(scope="module")
def pool_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's own kernel library: a kernel of an op that the runtime has not."""
    try:
        libraries, compiler = find_libraries(), find_compiler()
    except DeviceError as error:
        pytest.skip(f"{error.message}. {error.hint}")
    folder = tmp_path_factory.mktemp("own")
    source = folder / "mine.cpp"
    source.write_text(
        "#include <executorch/runtime/kernel/operator_registry.h>\n"
        "using namespace executorch::runtime;\n"
        "static void run(KernelRuntimeContext&, Span<EValue*>) {}\n"
        "static const auto done = register_kernel(\n"
        '    Kernel("aten::avg_pool2d_backward.grad_input", run));\n'
    )
    compile_library(compiler, [source], folder / "mine.so", libraries)
    return folder / "mine.so"


def test_own_kernel_library_is_not_missing_but_not_checked(
    pool_kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(_MODELS / "avg_pool.py")
    assert run([model, "--ignore", "GC6", "--kernel-library", str(pool_kernel)]) == 0
    out = capsys.readouterr().out
    assert "; mitigated by patch: mine.so runs it" in " ".join(out.split())
    last = out.splitlines()[-1]
    assert "; 1 NOT CHECKED. Next: graphcheck validate " in last
    assert last.endswith(f"avg_pool.py --kernel-library {pool_kernel}")
