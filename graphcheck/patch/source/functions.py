"""Find the definitions of a function, whatever namespace it lives in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphcheck.patch.source.tokens import Token, UnreadableSource

__all__ = ["Function", "find_functions"]

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_AFTER_PARAMETERS = frozenset(("const", "noexcept", "override", "final", "volatile", "&", "&&"))


@dataclass(frozen=True)
class Function:
    """One definition. `head` is the index of its name, `opening` and `closing` those of the
    brackets around its body (in Python the colon and the last token). `scope` names the
    namespaces and classes around it, outermost first."""

    name: str
    scope: tuple[str, ...]
    head: int
    opening: int
    closing: int


def find_functions(tokens: Sequence[Token], name: str, language: str) -> list[Function]:
    """The definitions of `name`, which may be qualified by classes (`Layer::backward`).

    Raises UnreadableSource when brackets do not balance.
    """
    found = _cpp(tokens, name) if language == "cpp" else _python(tokens, name)
    return list(found)


def _cpp(tokens: Sequence[Token], name: str) -> Iterator[Function]:
    pairs = _pairs(tokens)
    *qualifiers, last = name.split("::")
    scopes: list[tuple[int, str]] = []  # the closing index and the name of each open scope
    for index, token in enumerate(tokens):
        while scopes and scopes[-1][0] < index:
            scopes.pop()
        if token.text == "{" and index in pairs:
            scopes.append((pairs[index], _scope_name(tokens, index)))
        if token.text != last or token.kind != "name":
            continue
        opening = _body(tokens, pairs, index)
        if opening is None:
            continue
        scope = tuple(part for _, label in scopes for part in label.split("::") if part)
        scope += _written_qualifiers(tokens, index)
        if not qualifiers or scope[-len(qualifiers) :] == tuple(qualifiers):
            yield Function(name, scope, index, opening, pairs[opening])


def _pairs(tokens: Sequence[Token]) -> dict[int, int]:
    """The index of each closing bracket by that of the opening one."""
    pairs: dict[int, int] = {}
    waiting: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind != "punctuation":
            continue
        if token.text in _PAIRS:
            waiting.append(index)
        elif token.text in _PAIRS.values():
            if not waiting or _PAIRS[tokens[waiting[-1]].text] != token.text:
                raise UnreadableSource(f"its brackets do not balance: a {token.text} too many")
            pairs[waiting.pop()] = index
    if waiting:
        raise UnreadableSource(
            f"its brackets do not balance: a {tokens[waiting[-1]].text} is never closed"
        )
    return pairs


def _body(tokens: Sequence[Token], pairs: dict[int, int], index: int) -> int | None:
    """The opening brace of the definition whose name is at `index`; None if it is none."""
    if index + 1 >= len(tokens) or tokens[index + 1].text != "(":
        return None
    at = pairs[index + 1] + 1
    while at < len(tokens):
        text = tokens[at].text
        if text == "{":
            return at
        if text in _AFTER_PARAMETERS or tokens[at].kind == "directive":
            at += 1
        elif text in ("(", "["):  # noexcept(...), [[attribute]]
            if tokens[at - 1].text != "noexcept" and text == "(":
                return None
            at = pairs[at] + 1
        elif text == "->":
            at += 1
            while at < len(tokens) and tokens[at].text not in ("{", ";", ")", ","):
                at += 1
        else:
            return None
    return None


def _written_qualifiers(tokens: Sequence[Token], index: int) -> tuple[str, ...]:
    """`Layer` of `Layer::backward`."""
    parts: list[str] = []
    while index >= 2 and tokens[index - 1].text == "::" and tokens[index - 2].kind == "name":
        parts.insert(0, tokens[index - 2].text)
        index -= 2
    return tuple(parts)


def _scope_name(tokens: Sequence[Token], opening: int) -> str:
    """`a::b` of `namespace a::b {`, `Layer` of `class Layer : public Base {`, else nothing."""
    start = opening
    while start > 0 and tokens[start - 1].text not in (";", "{", "}"):
        if tokens[start - 1].kind == "directive":
            break
        start -= 1
    words = [token.text for token in tokens[start:opening]]
    for keyword in ("namespace", "class", "struct"):
        if keyword in words:
            rest = words[words.index(keyword) + 1 :]
            name = rest[: rest.index(":")] if ":" in rest else rest
            if keyword == "namespace":
                return "".join(name)
            named = [word for word in name if word.isidentifier() and word != "final"]
            return named[-1] if named and "(" not in rest else ""
    return ""


def _python(tokens: Sequence[Token], name: str) -> Iterator[Function]:
    pairs = _pairs(tokens)
    *_, last = name.split("::")
    for index, token in enumerate(tokens):
        if token.text != "def" or index + 2 >= len(tokens) or tokens[index + 1].text != last:
            continue
        at = pairs[index + 2] + 1
        while tokens[at].text != ":":
            at = pairs.get(at, at) + 1
        if tokens[at + 1].kind != "newline" or tokens[at + 2].kind != "indent":
            continue  # its body is on the line of the head
        depth, end = 1, at + 3
        while depth and end < len(tokens):
            depth += {"indent": 1, "dedent": -1}.get(tokens[end].kind, 0)
            end += 1
        yield Function(name, (), index + 1, at, end - 1)
