"""Patterns of tokens with placeholders: how a statement is found whatever its locals are called.

`$name` is one identifier, the same wherever the name recurs; `${name}` the shortest balanced run
of tokens of one statement; `$...` a balanced run that may be empty and may span statements;
`$?word` a token that may be missing. White space, comments and line ends do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from graphcheck.patch.source.tokens import Token, tokens_of

__all__ = ["Binding", "Match", "compile_pattern", "fill", "find_all", "holds"]

Binding = Mapping[str, str]
"""Texts of the placeholders bound so far, by name (`data`, not `$data`)."""

_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = frozenset(_OPEN.values())
_KEYWORD = re.compile(
    r"(?:if|else|for|while|do|switch|case|default|return|break|continue|goto|const|constexpr"
    r"|static|template|typename|using|struct|class|enum|namespace|new|delete|throw|try|catch"
    r"|operator)\Z"
)
_PLACEHOLDER = re.compile(r"\$\?([A-Za-z_]\w*)|\$\{(\w+)\}|\$(\.\.\.)|\$([A-Za-z]\w*)")
_FORMS = ("__maybe_", "__run_", "__any_", "__one_")


@dataclass(frozen=True)
class _Piece:
    """`form` is text, or one of the placeholders one, run, any, maybe; `text` its text or name."""

    form: str
    text: str


@dataclass(frozen=True)
class Match:
    """Tokens `first` to `last` (inclusive), and what the placeholders are bound to."""

    first: int
    last: int
    binding: Binding


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, language: str) -> tuple[_Piece, ...]:
    """The pieces of a pattern. Raises UnreadableSource when it is no source."""

    def stand_in(found: re.Match[str]) -> str:
        index = next(i for i, group in enumerate(found.groups()) if group)
        name = "" if found[3] else found[index + 1]
        return f" {_FORMS[index]}{name} "

    text = _PLACEHOLDER.sub(stand_in, pattern).strip()
    return tuple(
        _piece(token) for token in tokens_of(text, language) if token.kind not in _LAYOUT_KINDS
    )


_LAYOUT_KINDS = ("newline", "indent", "dedent")


def _piece(token: Token) -> _Piece:
    for form in _FORMS:
        if token.text.startswith(form):
            return _Piece(form.strip("_"), token.text.removeprefix(form))
    return _Piece("text", token.text)


def find_all(
    pattern: str, tokens: Sequence[Token], language: str, binding: Binding | None = None
) -> list[Match]:
    """Every match in these tokens, at most one for each first token, in order."""
    pieces = compile_pattern(pattern, language)
    found = []
    for start, token in enumerate(tokens):
        head = pieces[0]
        if head.form == "text" and head.text != token.text:
            continue
        match = next(_match(pieces, 0, tokens, start, dict(binding or {})), None)
        if match is not None:
            found.append(Match(start, match[0] - 1, match[1]))
    return found


def holds(patterns: Sequence[str], tokens: Sequence[Token], language: str) -> bool:
    """Whether all patterns match, with one binding of their placeholders."""

    def rest(at: int, binding: Binding) -> bool:
        return at == len(patterns) or any(
            rest(at + 1, match.binding)
            for match in find_all(patterns[at], tokens, language, binding)
        )

    return rest(0, {})


def _match(
    pieces: Sequence[_Piece], at: int, tokens: Sequence[Token], place: int, binding: dict[str, str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """The ends (exclusive) and bindings of the ways in which the pieces match from `place` on."""
    # Literal pieces are walked in a loop: patterns may be longer than Python likes to recurse.
    while at < len(pieces) and pieces[at].form in ("text", "one"):
        while place < len(tokens) and tokens[place].kind == "directive":
            place += 1
        if place >= len(tokens) or not _fits(pieces[at], tokens[place], binding):
            return
        if pieces[at].form == "one":
            binding = {**binding, pieces[at].text: tokens[place].text}
        at, place = at + 1, place + 1
    if at == len(pieces):
        yield place, binding
        return
    piece = pieces[at]
    if piece.form == "maybe":
        if place < len(tokens) and tokens[place].text == piece.text:
            yield from _match(pieces, at + 1, tokens, place + 1, binding)
        yield from _match(pieces, at + 1, tokens, place, binding)
        return
    for end in _runs(tokens, place, whole_statements=piece.form == "any"):
        if piece.form == "run":
            text = _joined(tokens[place:end])
            if not text or _packed(binding.get(piece.text, text)) != _packed(text):
                continue
            yield from _match(pieces, at + 1, tokens, end, {**binding, piece.text: text})
        else:
            yield from _match(pieces, at + 1, tokens, end, binding)


def _fits(piece: _Piece, token: Token, binding: Binding) -> bool:
    if piece.form == "text":
        return piece.text == token.text
    if token.kind != "name" or _KEYWORD.match(token.text):
        return False
    return binding.get(piece.text, token.text) == token.text


def _runs(tokens: Sequence[Token], place: int, *, whole_statements: bool) -> Iterator[int]:
    """Ends of the balanced runs from `place` on, shortest (the empty one) first."""
    open_brackets: list[str] = []
    yield place
    for index in range(place, len(tokens)):
        text = tokens[index].text
        if text in _OPEN and tokens[index].kind == "punctuation":
            open_brackets.append(_OPEN[text])
        elif text in _CLOSE and tokens[index].kind == "punctuation":
            if not open_brackets or open_brackets.pop() != text:
                return
        elif text == ";" and not open_brackets and not whole_statements:
            return
        if not open_brackets:
            yield index + 1


def _joined(tokens: Sequence[Token]) -> str:
    """The tokens as they were written, but for line ends, comments and wide gaps."""
    text = ""
    for before, token in zip((None, *tokens), tokens, strict=False):
        gap = before is not None and token.start > before.end
        text += f" {token.text}" if gap else token.text
    return text


def _packed(text: str) -> str:
    return text.replace(" ", "")


def fill(text: str, binding: Binding) -> str:
    """The text with `$name` and `${name}` put in. Raises KeyError on a name nobody bound."""
    return _PLACEHOLDER.sub(lambda found: binding[found[2] or found[4]], text)
