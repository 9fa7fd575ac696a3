"""All or nothing: two runs at once, a killed run, trees that cannot or must not be written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from source_trees import EXECUTORCH, copy_of, snapshot

from graphcheck.errors import UsageError
from graphcheck.patch.source import transaction
from graphcheck.patch.source.manifest import read_manifest
from graphcheck.patch.source.run import PatchConflict, apply, diff, revert, select, status
from graphcheck.patch.source.states import State

POOL = "kernels/portable/cpu/op_max_pool2d_with_indices_backward.cpp"

KILLED = """
import os, signal, sys
from pathlib import Path
from graphcheck.patch.source import run, transaction

calls = 0
def die_at(name, number):
    real = getattr(transaction, name)
    def dying(*arguments):
        global calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)
    setattr(transaction, name, dying)

verb, root, name, number = sys.argv[1:]
die_at(name, int(number))
getattr(run, verb)(run.select(Path(root)))
"""


def killed(verb: str, root: Path, name: str, number: int) -> None:
    command = [sys.executable, "-c", KILLED, verb, str(root), name, str(number)]
    assert subprocess.run(command, timeout=120).returncode == -signal.SIGKILL


@pytest.fixture
def patched(tmp_path: Path) -> dict[str, str]:
    """What a patched tree looks like."""
    root = copy_of(EXECUTORCH, tmp_path / "patched")
    apply(select(root))
    return snapshot(root)


@pytest.mark.parametrize(("name", "number"), [("write_atomic", 1), ("write_atomic", 9)])
def test_killed_before_the_journal_nothing_has_changed(
    tree: Path, patched: dict[str, str], name: str, number: int
) -> None:
    before = snapshot(tree)
    killed("apply", tree, name, number)
    now = {path: digest for path, digest in snapshot(tree).items() if ".graphcheck" not in path}
    assert now == before
    outcome = apply(select(tree))
    assert outcome.interrupted == ""
    assert snapshot(tree) == patched


@pytest.mark.parametrize("number", [1, 2, 14])
def test_killed_after_the_journal_the_next_run_completes(
    tree: Path, patched: dict[str, str], number: int
) -> None:
    before = snapshot(tree)
    killed("apply", tree, "_replace", number)
    seen = status(select(tree))
    assert seen.interrupted == "apply"
    outcome = apply(select(tree))
    assert outcome.interrupted == "apply"
    assert {state.state for state in outcome.states} == {State.APPLIED}
    assert snapshot(tree) == patched
    killed("revert", tree, "_replace", number)
    assert revert(select(tree)).interrupted == "revert"
    assert snapshot(tree) == before


def test_a_file_that_changed_after_the_kill_is_left_alone(tree: Path) -> None:
    killed("apply", tree, "_replace", 3)
    path = tree / POOL
    path.write_bytes(path.read_bytes() + b"// mine\n")
    now = snapshot(tree)
    with pytest.raises(UsageError) as caught:
        apply(select(tree))
    assert caught.value.message == (
        f"{POOL} was changed after `graphcheck patch apply` was interrupted."
    )
    assert snapshot(tree) == now


def test_two_at_once_give_one_result(tree: Path, patched: dict[str, str]) -> None:
    command = [sys.executable, "-m", "graphcheck", "patch", "apply", "--source", str(tree)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    last = sorted(process.communicate(timeout=120)[0].splitlines()[-1] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert last == [
        "ExecuTorch 1.2.3: 15 files changed.",
        "ExecuTorch 1.2.3: nothing to do, no file changed.",
    ]
    assert snapshot(tree) == patched


def test_a_tree_that_another_run_holds(tree: Path) -> None:
    with (
        transaction.locked(tree),
        pytest.raises(UsageError) as caught,
        transaction.locked(tree, seconds=0.1),
    ):
        pass
    assert caught.value.message == f"another graphcheck has been at work in {tree} for 0 s."


def test_one_after_the_other_is_all_at_once(tree: Path, patched: dict[str, str]) -> None:
    for patch in reversed(select(tree).patches):
        apply(select(tree, [patch.id]))
    assert snapshot(tree) == patched
    before = snapshot(EXECUTORCH)
    for patch in select(tree).patches:
        assert snapshot(tree) != before
        revert(select(tree, [patch.id]))
    assert snapshot(tree) == before


def test_two_patches_in_one_file_part_again(tree: Path, tmp_path: Path) -> None:
    """The second description edits another function of the file that the first one edits."""
    own = tmp_path / "own" / "second"
    own.mkdir(parents=True)
    (own / "patch.yaml").write_text(
        "id: second\ntitle: t\naffected: ''\nwrong: w\ncost: c\n"
        f"source:\n  sites:\n    - files: [{POOL}]\n      function: pool_backward\n"
        "      fixed: [['$a(from, places); return into']]\n      variants:\n"
        "        - steps: [{find: 'return into;', before: 'check(from, places);'}]\n"
    )
    first, second = "max_pool2d_with_indices_backward", "second"
    both = select(tree, [first, second], tmp_path / "own")
    apply(select(tree, [first]))
    alone = (tree / POOL).read_bytes()
    outcome = apply(both)
    assert outcome.changed == (POOL,)
    (record,) = read_manifest(tree).files
    assert record.patches == (first, second)
    with pytest.raises(PatchConflict) as caught:
        revert(select(tree, [first]))
    assert caught.value.message == (
        f"{POOL} has the patch second, which this graphcheck does not know."
    )
    revert(select(tree, [second], tmp_path / "own"))
    assert (tree / POOL).read_bytes() == alone
    revert(select(tree))
    assert snapshot(tree) == snapshot(EXECUTORCH)


UNPRIVILEGED = """
import fcntl, os, sys
from graphcheck.cli.main import run

# Root may write anything, so become nobody, with all that is needed imported before.
where = ["--source", sys.argv[1]]
run(["patch", "apply", "--check", *where])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(run(["patch", "apply", *where]))
"""


@pytest.mark.parametrize("place", ["the tree", "one file"])
def test_a_read_only_tree(tree: Path, place: str) -> None:
    before = snapshot(tree)
    for parent in (tree, *tree.parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    mode = 0o555 if place == "the tree" else 0o777
    for path in (tree, *tree.rglob("*")):
        path.chmod(mode)
    (tree / POOL).chmod(0o444)
    command = [sys.executable, "-c", UNPRIVILEGED, str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    for path in (tree, *tree.rglob("*")):
        path.chmod(0o755)
    assert done.returncode == 2, done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith("graphcheck: error: the source tree cannot be written: ")
    assert first.endswith(": Permission denied.")
    assert second == ("next: Make the tree writable, or work on a copy of it. Nothing was changed.")
    assert snapshot(tree) == before


def test_a_disk_that_fails_half_way(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, written = snapshot(tree), []

    def failing(path: Path, data: bytes) -> None:
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device", str(path))
        real(path, data)

    real = transaction._replace
    monkeypatch.setattr(transaction, "_replace", failing)
    with pytest.raises(UsageError) as caught:
        apply(select(tree))
    assert caught.value.message == (
        f"the source tree cannot be written: {written[-1]}: No space left on device."
    )
    assert snapshot(tree) == before


def test_a_link_out_of_the_tree(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.cpp"
    (tree / POOL).rename(outside)
    (tree / POOL).symlink_to(outside)
    before = snapshot(tmp_path)
    with pytest.raises(PatchConflict) as caught:
        apply(select(tree))
    assert caught.value.message == (
        f"the patch max_pool2d_with_indices_backward does not fit: {POOL} leads out of the tree,"
        f" to {outside}."
    )
    assert snapshot(tmp_path) == before


def test_a_folder_that_links_out_of_the_tree(tree: Path, tmp_path: Path) -> None:
    (tree / "kernels" / "optimized").rename(tmp_path / "optimized")
    (tree / "kernels" / "optimized").symlink_to(tmp_path / "optimized")
    (tree / ".graphcheck").symlink_to(tmp_path)
    with pytest.raises(UsageError) as caught:
        apply(select(tree, ["flip"]))
    assert caught.value.message == f"{tree / '.graphcheck'} leads out of the tree, to {tmp_path}."
    (tree / ".graphcheck").unlink()
    with pytest.raises(PatchConflict, match="leads out of the tree"):
        apply(select(tree, ["sum_one_dim"]))


def test_a_link_inside_the_tree_stays_a_link(tree: Path) -> None:
    real = tree / "moved.cpp"
    (tree / POOL).rename(real)
    (tree / POOL).symlink_to(real)
    original = real.read_bytes()
    assert "moved.cpp" in apply(select(tree)).changed
    assert (tree / POOL).is_symlink()
    assert b"graphcheck patch" in real.read_bytes()
    revert(select(tree))
    assert real.read_bytes() == original


def test_half_of_the_edit(tree: Path) -> None:
    apply(select(tree))
    path = tree / POOL
    path.write_text(
        "".join(line for line in path.read_text().splitlines(True) if "memset" not in line)
    )
    now = snapshot(tree)
    for verb in (apply, diff):
        with pytest.raises(PatchConflict) as caught:
            verb(select(tree))
        assert caught.value.message == (
            "the patch max_pool2d_with_indices_backward does not fit: max_pool_backward_impl in"
            f" {POOL} holds half of the edit that graphcheck made."
        )
    with pytest.raises(PatchConflict) as caught:
        revert(select(tree))
    assert caught.value.message == f"{POOL} was changed after graphcheck edited it."
    assert snapshot(tree) == now


def test_a_change_on_top_of_ours(tree: Path) -> None:
    apply(select(tree))
    path = tree / POOL
    path.write_bytes(path.read_bytes() + b"// mine\n")
    now = snapshot(tree)
    outcome = apply(select(tree))
    (state,) = [s for s in outcome.states if s.files == (POOL,)]
    assert (state.state, state.reason) == (
        State.APPLIED,
        f"{POOL} was changed after graphcheck edited it",
    )
    with pytest.raises(PatchConflict) as caught:
        revert(select(tree))
    assert caught.value.hint == (
        "Take back that change, or restore the file with your version control. Nothing was changed."
    )
    assert snapshot(tree) == now


def test_files_that_version_control_put_back(tree: Path) -> None:
    apply(select(tree))
    (tree / POOL).write_bytes((EXECUTORCH / POOL).read_bytes())
    assert apply(select(tree)).changed == (POOL,)
    (tree / POOL).write_bytes((EXECUTORCH / POOL).read_bytes())
    revert(select(tree))
    assert snapshot(tree) == snapshot(EXECUTORCH)


def test_a_newer_version_of_an_edited_file(tree: Path) -> None:
    apply(select(tree))
    newer = (EXECUTORCH / POOL).read_bytes() + b"// upstream\n"
    (tree / POOL).write_bytes(newer)
    assert apply(select(tree)).changed == (POOL,)
    revert(select(tree))
    assert (tree / POOL).read_bytes() == newer


def test_a_lost_manifest(tree: Path) -> None:
    apply(select(tree))
    (tree / ".graphcheck" / "patches.json").unlink()
    assert apply(select(tree)).changed == ()
    with pytest.raises(PatchConflict) as caught:
        revert(select(tree, ["flip"]))
    assert caught.value.message == (
        "kernels/portable/cpu/op_flip.cpp has the patch flip, but the tree's manifest does not"
        " know it."
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Input data was truncated"),
        ('{"files": [], "schema": 9}', "its schema is 9, not 1"),
        (
            '{"files": [{"path": "../x", "before": "", "after": "", "patches": []}]}',
            "../x leads out of the tree",
        ),
    ],
)
def test_a_damaged_manifest(tree: Path, text: str, why: str) -> None:
    apply(select(tree))
    path = tree / ".graphcheck" / "patches.json"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        status(select(tree))
    assert caught.value.message == f"the manifest {path} cannot be used: {why}."


def test_a_lost_original(tree: Path) -> None:
    apply(select(tree, ["flip"]))
    (record,) = read_manifest(tree).files
    original = tree / ".graphcheck" / "originals" / record.before
    original.write_bytes(b"other")
    with pytest.raises(UsageError) as caught:
        revert(select(tree))
    assert caught.value.message == (
        f"the original of {record.path} is lost ({original} was changed)."
    )


def test_the_manifest_has_hashes_of_before_and_after(tree: Path) -> None:
    before = snapshot(tree)
    apply(select(tree))
    after = snapshot(tree)
    body = json.loads((tree / ".graphcheck" / "patches.json").read_text())
    assert body["schema"] == 1
    assert len(body["files"]) == 15
    for record in body["files"]:
        assert record["before"] == before[record["path"]]
        assert record["after"] == after[record["path"]]
    assert (tree / ".graphcheck" / ".gitignore").read_text() == "*\n"


def test_a_file_system_without_locks(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(handle: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UsageError) as caught:
        apply(select(tree))
    assert caught.value.message == f"{tree} cannot be locked: No locks available."
