"""What a tree needs: the state of every patch, and the new texts of the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graphcheck.patch.description import Patch, Site
from graphcheck.patch.source.edit import SiteAnswer, edit_site
from graphcheck.patch.source.manifest import Manifest, sha256
from graphcheck.patch.source.states import State
from graphcheck.patch.source.tree import OutsideTree, Tree

__all__ = ["PatchState", "Texts", "compose", "survey"]


@dataclass(frozen=True)
class PatchState:
    """The state of one patch in a tree: `files` are those it concerns, relative to the root."""

    patch: Patch
    state: State
    reason: str = ""
    files: tuple[str, ...] = ()


@dataclass
class Texts:
    """The files of a tree as Latin-1 text, read once."""

    tree: Tree
    read: dict[str, str] = field(default_factory=dict)

    def of(self, path: str) -> str:
        """The text of a file. Raises OSError."""
        if path not in self.read:
            self.read[path] = (self.tree.root / path).read_bytes().decode("latin-1")
        return self.read[path]


def survey(tree: Tree, patches: Sequence[Patch], manifest: Manifest) -> tuple[PatchState, ...]:
    """The state of each patch in the tree. Changes nothing, needs no write access."""
    texts = Texts(tree)
    return tuple(_state(patch, texts, manifest) for patch in patches if patch.source)


def _state(patch: Patch, texts: Texts, manifest: Manifest) -> PatchState:
    assert patch.source is not None
    edited: dict[str, str] = {}
    answers: list[tuple[str, SiteAnswer]] = []
    for site in patch.source.sites:
        try:
            found = texts.tree.find(site.files)
            if found is None:
                answers.append(("", SiteAnswer(State.NOT_APPLICABLE, _no_file(site))))
                continue
            path = texts.tree.name_of(found)
            text = edited.get(path) or texts.of(path)
        except OutsideTree as error:
            answers.append(("", SiteAnswer(State.CONFLICT, str(error))))
            continue
        except OSError as error:
            reason = f"{site.files[0]} cannot be read: {error.strerror}"
            answers.append(("", SiteAnswer(State.CONFLICT, reason)))
            continue
        answer = edit_site(patch, site, text, path)
        if answer.text is not None:
            edited[path] = answer.text
        answers.append((path, answer))
    state, reason = _together([answer for _, answer in answers])
    files = tuple(dict.fromkeys(path for path, _ in answers if path))
    changed = [path for path in files if _changed_since(path, texts, manifest)]
    if state is State.APPLIED and changed:
        reason = f"{changed[0]} was changed after graphcheck edited it"
    return PatchState(patch, state, reason, files)


def _no_file(site: Site) -> str:
    return f"the tree has no {site.files[0]}"


def _together(answers: Sequence[SiteAnswer]) -> tuple[State, str]:
    """The state of a patch from those of its sites: the one that asks for most."""
    order = (State.CONFLICT, State.NEEDED, State.APPLIED, State.FIXED, State.NOT_APPLICABLE)
    worst = min(answers, key=lambda answer: order.index(answer.state))
    return worst.state, worst.reason


def _changed_since(path: str, texts: Texts, manifest: Manifest) -> bool:
    record = manifest.record(path)
    return record is not None and sha256(texts.of(path).encode("latin-1")) != record.after


def compose(tree: Tree, path: str, base: bytes, patches: Iterable[Patch]) -> bytes:
    """The bytes of one file with these patches, in order of id, on top of `base`."""
    text = base.decode("latin-1")
    for patch in sorted(patches, key=lambda patch: patch.id):
        for site in patch.source.sites if patch.source else ():
            found = tree.find(site.files)
            if found is not None and tree.name_of(found) == path:
                text = edit_site(patch, site, text, path).text or text
    return text.encode("latin-1")


def by_file(states: Iterable[PatchState]) -> Mapping[str, tuple[Patch, ...]]:
    """The patches that concern each file."""
    found: dict[str, tuple[Patch, ...]] = {}
    for state in states:
        for path in state.files:
            found[path] = (*found.get(path, ()), state.patch)
    return found
