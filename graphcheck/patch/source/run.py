"""The verbs on a source tree: status, apply, revert and diff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graphcheck.errors import ExitCode, GraphcheckError, UsageError
from graphcheck.patch.description import Patch, all_patches, read_patches
from graphcheck.patch.source.manifest import (
    FileRecord,
    Manifest,
    original_of,
    read_manifest,
    sha256,
)
from graphcheck.patch.source.states import State
from graphcheck.patch.source.survey import PatchState, by_file, compose, survey
from graphcheck.patch.source.transaction import Change, commit, interrupted, locked, recover
from graphcheck.patch.source.tree import OutsideTree, Tree, open_tree, read_projects
from graphcheck.patch.source.udiff import unified_diff

__all__ = ["Outcome", "PatchConflict", "Selection", "apply", "diff", "revert", "select", "status"]


class PatchConflict(GraphcheckError):
    """A tree in which a patch neither fits nor is there already."""

    exit_code = ExitCode.FINDINGS


@dataclass(frozen=True)
class Selection:
    """A tree and the patches of its project that were asked for; `all_known` are all of them."""

    tree: Tree
    patches: tuple[Patch, ...]
    all_known: tuple[Patch, ...]


@dataclass(frozen=True)
class Outcome:
    """The states after a run, the files it changed, and the verb of an interrupted run it found.

    `interrupted` was completed by `apply` and `revert`; `status` and `diff` leave it as it is.
    """

    tree: Tree
    states: tuple[PatchState, ...]
    changed: tuple[str, ...] = ()
    interrupted: str = ""


def select(source: Path, only: Sequence[str] = (), descriptions: Path | None = None) -> Selection:
    """Open the tree at `source` and choose patches: those with the ids `only`, or all.

    `descriptions` is a folder of further descriptions, as `patches/` is one. Raises UsageError.
    """
    projects, known = read_projects(), all_patches()
    if descriptions is not None:
        if not descriptions.is_dir():
            raise UsageError(
                f"--patches {descriptions} is no folder.",
                "Name the folder that holds ID/patch.yaml.",
            )
        own = read_patches(descriptions)
        projects = (*read_projects(descriptions / "projects"), *projects)
        known = (*(p for p in known if p.id not in {o.id for o in own}), *own)
    tree = open_tree(source, projects)
    mine = tuple(p for p in known if p.project == tree.project.name and p.source is not None)
    missing = [wanted for wanted in only if wanted not in {patch.id for patch in mine}]
    if missing:
        raise UsageError(
            f"There is no patch `{missing[0]}` for a source tree of {tree.project.title}.",
            f"They are {', '.join(sorted(patch.id for patch in mine)) or 'none'}.",
        )
    chosen = tuple(patch for patch in mine if not only or patch.id in only)
    return Selection(tree, chosen, mine)


def status(selection: Selection) -> Outcome:
    """The state of each selected patch. Changes nothing."""
    root = selection.tree.root
    states = survey(selection.tree, selection.patches, read_manifest(root))
    return Outcome(selection.tree, states, interrupted=interrupted(root))


def apply(selection: Selection) -> Outcome:
    """Apply all selected patches that are needed, or none.

    Doing it again changes nothing. Raises PatchConflict when one does not fit, UsageError when the
    tree cannot be written; the tree is as it was then.
    """
    tree = selection.tree
    with locked(tree.root):
        completed = recover(tree.root)
        manifest = read_manifest(tree.root)
        states = survey(tree, selection.patches, manifest)
        changes, new_manifest = _planned(selection, states, manifest)
        if changes:
            commit(tree.root, "apply", changes, new_manifest)
        after = survey(tree, selection.patches, new_manifest)
    return Outcome(tree, after, tuple(change.path for change in changes), completed)


def diff(selection: Selection) -> bytes:
    """What `apply` would change, in the form that `git apply` takes. Raises as `apply` does."""
    manifest = read_manifest(selection.tree.root)
    states = survey(selection.tree, selection.patches, manifest)
    changes, _ = _planned(selection, states, manifest)
    return b"".join(unified_diff(c.path, c.before, c.after) for c in changes)


def revert(selection: Selection) -> Outcome:
    """Take back the selected patches: files with no other patch are as they were, to the byte.

    Raises PatchConflict when a file was changed since; the tree is as it was then.
    """
    tree = selection.tree
    ids = {patch.id for patch in selection.patches}
    with locked(tree.root):
        completed = recover(tree.root)
        manifest = read_manifest(tree.root)
        changes, records = [], []
        for record in manifest.files:
            staying = tuple(name for name in record.patches if name not in ids)
            if len(staying) == len(record.patches):
                records.append(record)
                continue
            current = _bytes(tree, record.path)
            if sha256(current) == record.before or not _marked(current):
                continue  # nothing of ours is left in it
            if sha256(current) != record.after:
                raise _changed_since(record.path)
            after = _rebuilt(selection, record, staying)
            changes.append(Change(record.path, current, after))
            if staying:
                records.append(FileRecord(record.path, record.before, sha256(after), staying))
        _must_have_manifest(selection, manifest)
        new_manifest = Manifest(tuple(records))
        if changes or new_manifest != manifest:
            commit(tree.root, "revert", changes, new_manifest)
        states = survey(tree, selection.patches, new_manifest)
    return Outcome(tree, states, tuple(change.path for change in changes), completed)


def _planned(
    selection: Selection, states: Sequence[PatchState], manifest: Manifest
) -> tuple[list[Change], Manifest]:
    conflicts = [state for state in states if state.state is State.CONFLICT]
    if conflicts:
        raise _conflict(conflicts)
    tree = selection.tree
    records = {record.path: record for record in manifest.files}
    changes = []
    for path, needed in by_file(s for s in states if s.state is State.NEEDED).items():
        current = _bytes(tree, path)
        base, patches = current, needed
        record = records.pop(path, None)
        if record is not None and sha256(current) == record.after:
            base = original_of(tree.root, record)
            patches = (*needed, *_known(selection, path, record.patches))
        elif record is not None and _marked(current):
            raise _changed_since(path)
        after = compose(tree, path, base, patches)
        if after == current:
            if record is not None:
                records[path] = record
            continue
        ids = tuple(sorted({patch.id for patch in patches}))
        changes.append(Change(path, current, after))
        records[path] = FileRecord(path, sha256(base), sha256(after), ids)
    return changes, Manifest(tuple(records[path] for path in sorted(records)))


def _rebuilt(selection: Selection, record: FileRecord, staying: Sequence[str]) -> bytes:
    original = original_of(selection.tree.root, record)
    known = _known(selection, record.path, staying)
    return compose(selection.tree, record.path, original, known)


def _known(selection: Selection, path: str, names: Sequence[str]) -> tuple[Patch, ...]:
    """The patches with these ids, which a file has and must keep."""
    known = {patch.id: patch for patch in selection.all_known}
    for name in names:
        if name not in known:
            raise PatchConflict(
                f"{path} has the patch {name}, which this graphcheck does not know.",
                "Give its description with --patches, or restore the file. Nothing was changed.",
            )
    return tuple(known[name] for name in names)


def _must_have_manifest(selection: Selection, manifest: Manifest) -> None:
    """What carries our mark without a record can be taken back by nobody but its owner."""
    recorded = {name for record in manifest.files for name in record.patches}
    for state in survey(selection.tree, selection.patches, manifest):
        if state.state is State.APPLIED and state.patch.id not in recorded:
            raise PatchConflict(
                f"{state.files[0]} has the patch {state.patch.id}, but the tree's manifest does not"
                " know it.",
                "Restore the file with your version control. Nothing was changed.",
            )


def _marked(data: bytes) -> bool:
    return b"graphcheck patch " in data


def _bytes(tree: Tree, path: str) -> bytes:
    try:
        found = tree.find((path,))
    except OutsideTree as error:
        raise PatchConflict(f"{error}.", "Nothing was changed.") from error
    if found is None:
        raise PatchConflict(
            f"{path} is gone, but the manifest says that graphcheck edited it.",
            "Restore the file with your version control. Nothing was changed.",
        )
    return found.read_bytes()


def _changed_since(path: str) -> PatchConflict:
    return PatchConflict(
        f"{path} was changed after graphcheck edited it.",
        "Take back that change, or restore the file with your version control. Nothing was"
        " changed.",
    )


def _conflict(conflicts: Sequence[PatchState]) -> PatchConflict:
    first = conflicts[0]
    more = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
    return PatchConflict(
        f"the patch {first.patch.id} does not fit: {first.reason}{more}.",
        "Nothing was changed. `graphcheck patch status` shows every patch; --only chooses those"
        " that fit.",
    )
