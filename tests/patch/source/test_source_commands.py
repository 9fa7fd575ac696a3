"""The commands: what they print, their exit codes, and that git takes the diff."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from source_trees import EXECUTORCH, copy_of, snapshot

from graphcheck.cli.main import run
from graphcheck.errors import UsageError
from graphcheck.opset.load import with_stamps
from graphcheck.opset.types import Opset
from graphcheck.rules.mitigated import mitigate
from graphcheck.rules.types import Finding, Severity

POOL = "kernels/portable/cpu/op_max_pool2d_with_indices_backward.cpp"
ONE = ("--only", "max_pool2d_with_indices_backward")
ROW = "max_pool2d_with_indices_backward"


def patch(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["patch", *arguments])
    out, err = capsys.readouterr()
    return int(code), out, err


def test_a_round_trip(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--source", str(tree))
    head = f"{'patch':<34}{{state:<9}}where, or why\n"
    assert patch(capsys, "status", *where, *ONE) == (
        0,
        head.format(state="state")[:-14].rstrip().ljust(42)
        + "where, or why\n"
        + f"{ROW}  needed  {POOL}\n"
        + f"ExecuTorch 1.2.3: 1 needed. Next: graphcheck patch apply --source {tree}"
        + " --only max_pool2d_with_indices_backward\n",
        "",
    )
    assert patch(capsys, "apply", "--check", *where, *ONE)[0] == 1
    assert snapshot(tree) == snapshot(EXECUTORCH)
    code, out, err = patch(capsys, "apply", *where, *ONE)
    assert (code, out.splitlines()[-1], err) == (0, "ExecuTorch 1.2.3: 1 file changed.", "")
    code, out, _ = patch(capsys, "apply", *where, *ONE)
    assert (code, out.splitlines()[1:]) == (
        0,
        [f"{ROW}  applied  {POOL}", "ExecuTorch 1.2.3: nothing to do, no file changed."],
    )
    code, out, _ = patch(capsys, "apply", "--check", *where, *ONE)
    assert (code, out.splitlines()[-1]) == (0, "ExecuTorch 1.2.3: 1 applied.")
    assert patch(capsys, "apply", "--check", *where)[0] == 1
    code, out, _ = patch(capsys, "revert", *where)
    assert (code, out.splitlines()[-1]) == (0, "ExecuTorch 1.2.3: 1 file changed.")
    assert snapshot(tree) == snapshot(EXECUTORCH)
    code, out, _ = patch(capsys, "revert", *where)
    assert (code, out.splitlines()[-1]) == (0, "ExecuTorch 1.2.3: nothing to do, no file changed.")


def test_a_conflict_stops_everything(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / POOL).write_text("int max_pool_backward_impl(int a) { return a; }\n")
    before = snapshot(tree)
    reason = f"max_pool_backward_impl in {POOL} is neither the known fault nor a known repair"
    for verb in ("apply", "diff"):
        assert patch(capsys, verb, "--source", str(tree)) == (
            1,
            "",
            f"graphcheck: error: the patch {ROW} does not fit: {reason}.\n"
            "next: Nothing was changed. `graphcheck patch status` shows every patch; --only chooses"
            " those that fit.\n",
        )
    code, out, _ = patch(capsys, "status", "--source", str(tree))
    assert code == 0
    assert f"{ROW}  conflict  {reason}" in out
    assert out.splitlines()[-1].startswith("ExecuTorch 1.2.3: 13 needed, 1 conflict.")
    assert patch(capsys, "apply", "--check", "--source", str(tree))[0] == 1
    assert snapshot(tree) == before


def test_what_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere, empty = tmp_path / "nowhere", tmp_path / "empty"
    empty.mkdir()
    assert patch(capsys, "status", "--source", str(nowhere)) == (
        2,
        "",
        f"graphcheck: error: --source {nowhere} is no folder.\n"
        "next: Give the top folder of the source tree.\n",
    )
    assert patch(capsys, "status", "--source", str(empty)) == (
        2,
        "",
        f"graphcheck: error: --source {empty} is no source tree that is known here (ExecuTorch,"
        " nntrainer).\n"
        "next: Give its top folder: the one that has kernels/portable/cpu or nntrainer/layers.\n",
    )
    code, _, err = patch(capsys, "apply", "--source", str(EXECUTORCH), "--only", "pool")
    assert code == 2
    assert err.startswith(
        "graphcheck: error: There is no patch `pool` for a source tree of ExecuTorch.\n"
        "next: They are addmm, convolution, cumsum, "
    )
    assert patch(capsys, "apply")[0] == 2
    code, _, err = patch(
        capsys, "apply", "--source", str(EXECUTORCH), "--check", "--stamp", str(nowhere / "s.json")
    )
    assert (code, err.splitlines()[0]) == (
        2,
        f"graphcheck: error: --stamp {nowhere / 's.json'}: there is no folder {nowhere}.",
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
@pytest.mark.parametrize("ends", ["lf", "crlf", "no last line end"])
def test_git_takes_the_diff(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ends: str
) -> None:
    for path in (*tree.rglob("*.cpp"), *tree.rglob("*.py")):
        data = path.read_bytes()
        if ends == "crlf":
            data = data.replace(b"\n", b"\r\n")
        path.write_bytes(data[:-1] if ends == "no last line end" else data)
    other = copy_of(tree, tmp_path / "other")
    output = tmp_path / "all.diff"
    assert patch(capsys, "diff", "--source", str(tree), "--output", str(output))[0] == 1
    git = ["git", "-C", str(other), "-c", "core.autocrlf=false", "apply"]
    done = subprocess.run([*git, str(output)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert patch(capsys, "apply", "--source", str(tree))[0] == 0
    shutil.rmtree(tree / ".graphcheck")
    assert snapshot(other) == snapshot(tree)
    assert patch(capsys, "diff", "--source", str(tree)) == (0, "", "")


def test_an_interrupted_run_is_told(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from test_source_transaction import killed

    killed("apply", tree, "_replace", 2)
    code, out, _ = patch(capsys, "status", "--source", str(tree))
    assert code == 0
    assert "`graphcheck patch apply` was interrupted here. Next: graphcheck patch apply" in out
    assert patch(capsys, "apply", "--check", "--source", str(tree))[0] == 1
    code, _, err = patch(capsys, "apply", "--source", str(tree))
    assert (code, err) == (
        0,
        "`graphcheck patch apply` had been interrupted; it is complete now.\n",
    )


def test_json(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = patch(capsys, "status", "--json", "--source", str(tree), *ONE)
    assert code == 0
    assert json.loads(out) == {
        "schema": 1,
        "project": "executorch",
        "version": "1.2.3",
        "interrupted": "",
        "patches": [{"id": ROW, "state": "needed", "reason": "", "files": [POOL]}],
        "changed": [],
    }
    code, out, _ = patch(capsys, "list", "--json")
    described = {entry["id"]: entry for entry in json.loads(out)}
    assert described[ROW]["advisories"] == ["GCA-2026-0001"]
    assert "source edit" in described[ROW]["as"]
    code, out, _ = patch(capsys, "list")
    assert (code, out.splitlines()[0].split()) == (0, ["id", "project", "affected", "as", "title"])


def test_patches_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "patches"
    (own / "projects").mkdir(parents=True)
    (own / "projects" / "mine.yaml").write_text("name: mine\ntitle: Mine\nmarks: [src]\n")
    (own / "gentle").mkdir()
    (own / "gentle" / "patch.yaml").write_text(
        "id: gentle\ntitle: t\nproject: mine\naffected: ''\nwrong: w\ncost: c\n"
        "source:\n  sites:\n    - files: [src/a.cpp]\n      function: 'A::f'\n"
        "      fixed: [['return $x + 1;']]\n      variants:\n"
        "        - steps: [{find: 'return $x;', replace: 'return $x + 1;'}]\n"
    )
    (tmp_path / "tree" / "src").mkdir(parents=True)
    source = tmp_path / "tree" / "src" / "a.cpp"
    source.write_text("class A {\n  int f(int y) const {\n    return y;\n  }\n};\n")
    where = ("--source", str(tmp_path / "tree"), "--patches", str(own))
    code, out, _ = patch(capsys, "apply", *where)
    assert (code, out.splitlines()[-1]) == (0, "Mine, version unknown: 1 file changed.")
    assert "    return y + 1;\n" in source.read_text()
    assert patch(capsys, "revert", *where)[0] == 0
    assert "    return y;\n" in source.read_text()


def test_a_stamp_held_against_its_tree(tree: Path, tmp_path: Path) -> None:
    stamp, bare = tmp_path / "stamp.json", Opset("executorch", "1.5.1", "", frozenset())
    assert run(["patch", "apply", "--source", str(tree), "--stamp", str(stamp), *ONE]) == 0
    both = f"{stamp}={tree}"
    assert with_stamps(bare, [both]).stamps == with_stamps(bare, [str(stamp)]).stamps != ()
    (tree / POOL).write_bytes((tree / POOL).read_bytes() + b"// later\n")
    with pytest.raises(UsageError) as refused:
        with_stamps(bare, [both])
    assert str(refused.value) == (
        f"--stamp {stamp} does not hold for {tree}: {POOL} of patch {ROW} was changed since."
    )
    assert refused.value.hint == (
        f"Run `graphcheck patch apply --source {tree} --stamp {stamp}` again."
    )
    (tree / POOL).unlink()
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        with_stamps(bare, [both])
    stamp.write_text(stamp.read_text().replace(POOL, "../secret"))
    with pytest.raises(UsageError, match=r"it names \.\./secret, outside of the tree"):
        with_stamps(bare, [both])


def test_a_stamp_turns_findings_into_notes(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stamp = tmp_path / "stamp.json"
    where = ("--source", str(tree), "--stamp", str(stamp))
    assert patch(capsys, "apply", *where, *ONE)[0] == 0
    assert json.loads(stamp.read_text())["patches"] == [
        {
            "id": ROW,
            "state": "applied",
            "advisories": ["GCA-2026-0001"],
            "files": {POOL: snapshot(tree)[POOL]},
        }
    ]
    from graphcheck.graph.types import JointGraph
    from graphcheck.rules.interface import Context

    opset = with_stamps(Opset("executorch", "1.5.1", "", frozenset()), [str(stamp)])
    wrong = Finding("GC301", Severity.ERROR, "aten.a", "is wrong", advisory="GCA-2026-0001")
    other = Finding("GC301", Severity.ERROR, "aten.b", "is wrong", advisory="GCA-2026-0002")
    graph = JointGraph.__new__(JointGraph)
    note, error = mitigate([wrong, other], graph, Context(opset))
    assert error is other
    assert (note.severity, note.mitigated, note.message) == (
        Severity.NOTE,
        "stamp.json",
        f"is wrong; mitigated by patch: {ROW} is in the source",
    )
    assert note.evidence == (f"stamp.json: the source of executorch 1.2.3 has the patch {ROW}",)


def test_no_stamp_of_what_is_not_patched(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stamp = tmp_path / "stamp.json"
    where = ("--source", str(tree), "--stamp", str(stamp))
    assert patch(capsys, "apply", "--check", *where)[0] == 1
    assert not stamp.exists()
    (tree / POOL).unlink()
    assert patch(capsys, "apply", *where, *ONE) == (
        2,
        f"{'patch':<34}state           where, or why\n{ROW}  not applicable  the tree has no"
        f" {POOL}\nExecuTorch 1.2.3: nothing to do, no file changed.\n",
        f"graphcheck: error: There is nothing to stamp: no patch fits {tree}.\n"
        "next: Name the top folder of an ExecuTorch source tree with --source.\n",
    )


def test_a_tree_that_no_patch_fits_is_no_patched_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong folder must not be green in CI; a single patch that does not apply may be."""
    other = tmp_path / "kernels" / "portable" / "cpu" / "op_other.cpp"
    other.parent.mkdir(parents=True)
    other.write_text("int x;\n")
    code, _, err = patch(capsys, "apply", "--check", "--source", str(tmp_path))
    assert (code, err) == (
        2,
        f"graphcheck: error: No patch fits {tmp_path}: none of the files to edit is there.\n"
        "next: Name the top folder of an ExecuTorch source tree with --source.\n",
    )
    assert patch(capsys, "apply", "--check", "--source", str(tmp_path), *ONE)[0] == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read: No such file or directory."),
        ("{}", "is no stamp: Object missing required field `schema`."),
        (
            '{"schema": 1, "project": "nntrainer", "version": "", "patches": []}',
            "is no stamp of an ExecuTorch tree: its schema is 1, its project nntrainer.",
        ),
    ],
)
def test_a_bad_stamp(tmp_path: Path, text: str | None, told: str) -> None:
    from graphcheck.errors import UsageError

    path = tmp_path / "stamp.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as caught:
        with_stamps(Opset("executorch", "1.5.1", "", frozenset()), [str(path)])
    assert caught.value.message == f"--stamp {path} {told}"


def test_torch_is_not_needed(tree: Path) -> None:
    code = (
        "import sys\nfrom graphcheck.cli.main import run\n"
        "for verb in ('status', 'diff', 'apply', 'revert'):\n"
        "    run(['patch', verb, '--source', sys.argv[1]])\n"
        "run(['patch', 'list'])\n"
        "sys.exit(bool({'torch', 'executorch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tree)], capture_output=True, timeout=120)
    assert done.returncode == 0


def test_a_folder_without_descriptions_is_refused(tmp_path: Path) -> None:
    from graphcheck.patch.description import read_patches

    for folder, told in (
        (tmp_path / "gone", f"{tmp_path / 'gone'} is no folder"),
        (tmp_path, f"{tmp_path} describes no patch"),
    ):
        with pytest.raises(UsageError) as error:
            read_patches(folder)
        assert error.value.message == told
