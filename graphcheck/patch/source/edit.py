"""One site of a patch in one text: which state is it in, and the text after the edit.

Every state but `needed` is decided by the structure of the function alone, never by versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphcheck.patch.description import Patch, Site, Step, Variant
from graphcheck.patch.source.functions import Function, find_functions
from graphcheck.patch.source.layout import Layout, headers_of
from graphcheck.patch.source.pattern import Match, fill, find_all, holds
from graphcheck.patch.source.states import State
from graphcheck.patch.source.tokens import Token, UnreadableSource, comment_sign, tokens_of

__all__ = ["SiteAnswer", "edit_site", "language_of", "marker"]

_BEGINS = frozenset((";", "{", "}", ":"))
"""What may stand before a statement that is not the branch of an `if` without braces."""


@dataclass(frozen=True)
class SiteAnswer:
    """The state of one site, why, and the text after the edit (None unless it is needed)."""

    state: State
    reason: str = ""
    text: str | None = None


@dataclass(frozen=True)
class _Change:
    """Put `text` in the place of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class _Edit:
    """What one variant does to one definition."""

    changes: tuple[_Change, ...]
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Look:
    """The state of one definition of the function."""

    state: State
    reason: str = ""
    edits: tuple[_Edit, ...] = ()


class _Unclear(Exception):
    """The structure does not say what to do; the message says why."""


def language_of(path: str) -> str:
    """`python` or `cpp`, by the end of the file's name."""
    return "python" if path.endswith(".py") else "cpp"


def marker(patch: Patch) -> str:
    """What the comment at the head of an edited function says."""
    return f"graphcheck patch {patch.id}"


def edit_site(patch: Patch, site: Site, text: str, path: str) -> SiteAnswer:
    """Look at one site in the text of a file, and make the edit if it is needed."""
    language = language_of(path)
    try:
        tokens = tokens_of(text, language)
        functions = find_functions(tokens, site.function, language)
    except UnreadableSource as error:
        return SiteAnswer(State.CONFLICT, f"{path} cannot be read: {error}")
    if not functions:
        reason = f"{path} has no function {site.function}"
        absent = State.CONFLICT if site.absent == "conflict" else State.NOT_APPLICABLE
        return SiteAnswer(absent, reason)
    answers = [_look(patch, site, text, path, tokens, function) for function in functions]
    for state in (State.NEEDED, State.APPLIED, State.FIXED):
        chosen = [found for found in answers if found.state is state]
        if state is State.NEEDED and chosen:
            if any(found.state is State.CONFLICT for found in answers):
                break
            return _made(site, text, path, [edit for found in chosen for edit in found.edits])
        if chosen:
            return SiteAnswer(state, chosen[0].reason)
    conflict = next((found for found in answers if found.state is State.CONFLICT), answers[0])
    return SiteAnswer(conflict.state, conflict.reason)


def _look(
    patch: Patch,
    site: Site,
    text: str,
    path: str,
    tokens: Sequence[Token],
    function: Function,
) -> _Look:
    language = language_of(path)
    inside = tokens[function.opening : function.closing + 1]
    where = f"{site.function} in {path}"
    body = text[inside[0].start : inside[-1].end]
    marked = re.search(re.escape(marker(patch)) + r"(?![\w.-])", body) is not None
    if marked and any(holds(form, inside, language) for form in site.fixed[:1]):
        return _Look(State.APPLIED)
    right = any(holds(form, inside, language) for form in site.fixed)
    if marked:
        return _Look(State.CONFLICT, f"{where} holds half of the edit that graphcheck made")
    if right:
        return _Look(State.FIXED, f"{where} is right as it is")
    if any(holds(form, inside, language) for form in site.unless):
        return _Look(State.NOT_APPLICABLE, f"{where} has no such fault")
    layout = Layout(text, language, inside)
    for variant in site.variants:
        try:
            changes = _changes(variant, inside, language, layout)
        except _Unclear as error:
            return _Look(State.CONFLICT, f"{where}: {error}")
        if changes is not None:
            head = layout.at_head(f"{comment_sign(language)} {marker(patch)}")
            edit = _Edit((_Change(*head), *changes), variant.includes)
            return _Look(State.NEEDED, variant.name, (edit,))
    return _Look(State.CONFLICT, f"{where} is neither the known fault nor a known repair")


def _changes(
    variant: Variant, inside: Sequence[Token], language: str, layout: Layout
) -> tuple[_Change, ...] | None:
    """The changes of one variant; None if it is not the form of this function."""
    found: list[tuple[_Change, ...]] = []
    for changes in _solutions(variant, inside, language, layout):
        if changes not in found:
            found.append(changes)
        if len(found) > 1:
            raise _Unclear("more than one place fits the edit")
    return found[0] if found else None


def _solutions(
    variant: Variant, inside: Sequence[Token], language: str, layout: Layout
) -> Iterator[tuple[_Change, ...]]:
    """The ways in which all patterns of a variant match, as changes."""
    stages: list[str | Step] = [*variant.needs, *variant.steps]

    def go_on(
        at: int, binding: dict[str, str], made: tuple[_Change, ...]
    ) -> Iterator[tuple[_Change, ...]]:
        if at == len(stages):
            yield made
            return
        stage = stages[at]
        pattern = stage if isinstance(stage, str) else stage.find
        matches = find_all(pattern, inside, language, binding)
        if isinstance(stage, str):
            for match in matches:
                yield from go_on(at + 1, dict(match.binding), made)
        elif stage.count == "all" and matches:
            changes = tuple(c for m in matches for c in _of_step(stage, m, inside, layout))
            yield from go_on(at + 1, binding, made + changes)
        else:
            for match in matches:
                changes = _of_step(stage, match, inside, layout)
                yield from go_on(at + 1, dict(match.binding), made + changes)

    yield from go_on(0, {}, ())


def _of_step(
    step: Step, match: Match, inside: Sequence[Token], layout: Layout
) -> tuple[_Change, ...]:
    first, last = inside[match.first], inside[match.last]
    if step.rename is not None:
        names = {fill(old, match.binding): new for old, new in step.rename.items()}
        return tuple(
            _Change(token.start, token.end, names[token.text])
            for token in inside[match.first : match.last + 1]
            if token.text in names
        )
    if step.body is not None:
        return (_Change(*layout.body(fill(step.body, match.binding))),)
    if step.replace == "":
        return (_Change(*layout.without(first, last)),)
    if step.replace is not None:
        lines = layout.in_line(first, fill(step.replace, match.binding))
        return (_Change(first.start, last.end, lines),)
    _must_stand_alone(match, inside)
    if step.before is not None:
        return (_Change(*layout.before(first, fill(step.before, match.binding))),)
    return (_Change(*layout.after(first, last, fill(step.after or "", match.binding))),)


def _must_stand_alone(match: Match, inside: Sequence[Token]) -> None:
    """A line beside a statement belongs to it only where the statement stands in braces."""
    before = inside[match.first - 1] if match.first else None
    ends = before is None or before.kind in ("directive", "newline", "indent", "dedent")
    if not ends and before is not None and before.text not in _BEGINS:
        raise _Unclear("the statement to edit is part of another one")


def _made(site: Site, text: str, path: str, edits: Sequence[_Edit]) -> SiteAnswer:
    language = language_of(path)
    changes = [change for edit in edits for change in edit.changes]
    ordered = sorted(changes, key=lambda change: (change.start, change.end))
    for one, other in pairwise(ordered):
        if one.end > other.start:
            return SiteAnswer(State.CONFLICT, f"{site.function} in {path}: edits overlap")
    for change in reversed(ordered):
        text = text[: change.start] + change.text + text[change.end :]
    if language == "cpp":
        text = headers_of(text, sorted({header for edit in edits for header in edit.headers}))
    try:  # a last look: the result must be source, and its functions be there still
        ok = bool(find_functions(tokens_of(text, language), site.function, language))
    except UnreadableSource as error:
        return SiteAnswer(State.CONFLICT, f"{path} would not be source after the edit: {error}")
    if not ok or (language == "python" and not _compiles(text)):
        return SiteAnswer(State.CONFLICT, f"{path} would not be source after the edit")
    return SiteAnswer(State.NEEDED, "", text)


def _compiles(text: str) -> bool:
    try:
        compile(re.sub("^\xef\xbb\xbf", "", text), "<edited>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
