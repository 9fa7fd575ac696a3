"""`graphcheck opset diff`, `list` and `generate --check`: red on a doctored opset."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from graphcheck.cli.main import run
from graphcheck.opset import load as load_module
from graphcheck.opset.difference import compare, present_since
from graphcheck.opset.format import dump
from graphcheck.opset.load import load
from graphcheck.opset.registry import shipped


def test_what_changes_between_two_releases() -> None:
    found = {e.library: e for e in compare(load("1.3.1"), load("1.5.1")).libraries}
    assert found["portable"].added == (
        "et_copy::_d2h_copy.out",
        "et_copy::_h2d_copy.out",
        "executorch_prim::sym_int.Scalar",
        "executorch_prim::sym_ite.Scalar",
        "executorch_prim::sym_not.Scalar",
    )
    assert [e.removed for e in found.values()] == [(), (), ()]
    older = {e.library: e for e in compare(load("1.2.0"), load("1.3.1")).libraries}
    assert "aten::sum.IntList_out" in older["optimized"].added
    back = {e.library: e for e in compare(load("1.3.1"), load("1.2.0")).libraries}
    assert back["optimized"].removed == older["optimized"].added


def test_present_since() -> None:
    opsets = [load(name) for name in shipped()]
    assert present_since("aten::add.out", opsets, "1.5.1") == "0.6.0"
    assert present_since("et_copy::_h2d_copy.out", opsets, "1.5.1") == "1.4.1"
    assert present_since("et_copy::_h2d_copy.out", opsets, "1.3.1") == ""
    gone = [replace(opsets[0], kernels=frozenset()), *opsets[1:]]
    assert present_since("aten::add.out", gone, "1.5.1") == "0.7.0"


def test_diff_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["opset", "diff", "1.3.1", "1.5.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "executorch==1.3.1 -> executorch==1.5.1"
    assert "portable   232    237    +5 -0" in lines
    assert "+ executorch_prim::sym_ite.Scalar (portable)" in lines
    assert run(["opset", "diff", "1.3.1:portable", "1.5.1", "--output-format", "json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["before"], body["after"]) == ("executorch==1.3.1:portable", "executorch==1.5.1")
    assert set(body["advisories"]) == {"begin", "end"}
    assert run(["opset", "diff", "1.3.1", "1.5.1", "--output-format", "xml"]) == 2
    assert capsys.readouterr().err == (
        "graphcheck: error: There is no output format `xml`.\nnext: Choose text or json.\n"
    )


def test_list_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["opset", "list", "--json"]) == 0
    rows = {row["version"]: row for row in json.loads(capsys.readouterr().out)}
    assert len(rows) == 8
    assert rows["1.5.1"]["kernels"] == 240
    assert (rows["1.5.1"]["portable"], rows["1.5.1"]["quantized"]) == (237, 19)
    assert rows["1.5.1"]["commit"] == "3b60683923245cf472b7323426920e15623ba361"


def test_show_tells_since_when_and_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["opset", "show", "1.5.1", "--json"]) == 0
    history = json.loads(capsys.readouterr().out)["history"]
    assert history["et_copy::_h2d_copy.out"]["since"] == "1.4.1"
    assert history["aten::flip.out"] == {
        "since": "0.6.0",
        "implementation": "portable",
        "wrong": ["GCA-2026-0013"],
        "right_since": "",
    }
    assert history["aten::mean.out"]["right_since"] == "right since 1.4.0"
    assert history["aten::linear.out"]["implementation"] == "optimized"
    assert run(["opset", "show", "1.3.1:portable", "--op", "max_pool2d_with_indices_b"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "",
        "kernel                                             since  library   known faults   limits",
        "aten::max_pool2d_with_indices_backward.grad_input  0.6.0  portable  GCA-2026-0001",
        "1 kernel",
    ]


def test_the_installed_wheel_is_what_the_shipped_opset_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("executorch")
    from importlib import metadata

    version = metadata.version("executorch").partition("+")[0]
    if f"executorch-{version}" not in shipped():
        pytest.skip(f"no opset of executorch {version} is shipped")
    assert run(["opset", "generate", "--installed", "--check"]) == 0
    assert capsys.readouterr().out.startswith(
        f"opsets/executorch-{version}.yaml is what the installed executorch {version}"
    )


def test_a_doctored_opset_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("executorch")
    real = load("1.5.1")
    doctored = replace(
        real, kernels=real.kernels - {"aten::add.out"} | {"aten::avg_pool2d_backward.grad_input"}
    )
    path = tmp_path / "executorch-1.5.1.yaml"
    path.write_text(dump(doctored))
    monkeypatch.setattr(load_module, "shipped", lambda: {"executorch-1.5.1": path})
    assert run(["opset", "generate", "--installed", "--check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("opsets/executorch-1.5.1.yaml is not what the installed executorch")
    assert "+ aten::add.out (portable)" in lines
    assert "- aten::avg_pool2d_backward.grad_input (portable)" in lines


@pytest.mark.parametrize("arguments", [(), ("--live", "--installed")])
def test_one_source_is_needed(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["opset", "generate", *arguments]) == 2
    assert capsys.readouterr().err == (
        f"graphcheck: error: An operator set is made from one source, {len(arguments)} were "
        "given.\nnext: Give one of --wheel FILE, --source DIR, --installed and --live.\n"
    )
