"""Tokens of C++ and Python source: enough of the language to find a function and a statement.

A parser would fail where these sources are most themselves: kernels are written inside macros that
take lambdas, and a grammar reads such a body as an error. Tokens and brackets are always there.

Files are handled as Latin-1 text, so that every byte survives whatever its encoding is.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Token", "UnreadableSource", "comment_sign", "tokens_of"]

BOM = "\xef\xbb\xbf"
"""The byte order mark of UTF-8, read as Latin-1."""

_CPP = re.compile(
    r"""
    (?P<space>(?:\s|\\\r?\n)+)
  | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)")
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?[0-9](?:'?[0-9A-Za-z_]|[eEpP][+-]|\.)*)
  | (?P<name>[A-Za-z_$\x80-\xff][A-Za-z0-9_$\x80-\xff]*)
  | (?P<punctuation>\.\.\.|->\*?|::|\+\+|--|<<=?|&&|\|\||[+\-*/%&|^!=<]=|\#\#|.)
    """,
    re.X | re.S,
)
_DIRECTIVE = re.compile(r"#(?:/\*.*?\*/|\\\r?\n|(?!//|/\*)[^\n])*", re.S)
_LAYOUT = {tokenize.NEWLINE: "newline", tokenize.INDENT: "indent", tokenize.DEDENT: "dedent"}


class UnreadableSource(Exception):
    """The text is not source of this language; the message says why."""


@dataclass(frozen=True)
class Token:
    """`kind` is name, number, string, punctuation, directive (a whole preprocessor line), or one
    of Python's newline, indent and dedent. `start` and `end` are offsets into the text."""

    kind: str
    text: str
    start: int
    end: int


def tokens_of(text: str, language: str) -> list[Token]:
    """The tokens of a text without white space and comments. Raises UnreadableSource."""
    if "\0" in text:
        raise UnreadableSource("it holds zero bytes, so it is no text in an 8-bit encoding")
    offset = len(BOM) if text.startswith(BOM) else 0
    return list(_cpp(text, offset) if language == "cpp" else _python(text, offset))


def comment_sign(language: str) -> str:
    """What a comment to the end of the line starts with."""
    return "//" if language == "cpp" else "#"


def _cpp(text: str, start: int) -> Iterator[Token]:
    fresh = True  # nothing but white space and comments on this line so far
    branches: list[_Branch] = []  # the open conditionals
    while start < len(text):
        if fresh and text[start] == "#":
            found = _DIRECTIVE.match(text, start)
            assert found is not None
            _branch(found[0], branches)
            yield Token("directive", found[0].rstrip("\r"), start, found.end())
            start = found.end()
            continue
        found = _CPP.match(text, start)
        assert found is not None, "the last alternative takes any character"
        kind = str(found.lastgroup if found.lastgroup != "fence" else "raw")
        live = all(branch.live for branch in branches)
        if kind == "punctuation" and live:
            _refuse_open_end(text, start)
        if kind in ("space", "comment"):
            fresh = fresh or "\n" in found[0]
        else:
            fresh = False
            if live:
                kind = "string" if kind == "raw" else kind
                yield Token(kind, found[0], start, found.end())
        start = found.end()


@dataclass
class _Branch:
    """One open `#if`: whether its text here counts, and whether a side was chosen already."""

    live: bool
    chosen: bool


def _branch(directive: str, branches: list[_Branch]) -> None:
    """Follow one side of each conditional, so that brackets balance: the first that is not 0."""
    words = directive[1:].split(None, 2)
    if not words:
        return
    if words[0] in ("if", "ifdef", "ifndef"):
        live = not (words[0] == "if" and words[1:2] == ["0"])
        branches.append(_Branch(live, live))
    elif words[0] in ("else", "elif") and branches:
        top = branches[-1]
        top.live = not top.chosen
        top.chosen = True
    elif words[0] == "endif" and branches:
        branches.pop()


def _refuse_open_end(text: str, start: int) -> None:
    line = text.count("\n", 0, start) + 1
    if text[start] in "\"'":
        raise UnreadableSource(f"line {line} has a quotation mark that is never closed")
    if text.startswith("/*", start):
        raise UnreadableSource(f"the comment that starts in line {line} is never closed")


def _python(text: str, offset: int) -> Iterator[Token]:
    body = text[offset:]
    starts = [offset]
    for line in io.StringIO(body, newline=""):
        starts.append(starts[-1] + len(line))
    try:
        for found in tokenize.generate_tokens(io.StringIO(body, newline="").readline):
            kind = _LAYOUT.get(found.type) or _python_kind(found)
            if kind:
                begin = starts[found.start[0] - 1] + found.start[1]
                end = starts[found.end[0] - 1] + found.end[1]
                yield Token(kind, found.string if kind not in _LAYOUT.values() else "", begin, end)
    except (tokenize.TokenError, IndentationError, SyntaxError) as error:
        raise UnreadableSource(f"it is no Python: {error.args[0]}") from error


def _python_kind(found: tokenize.TokenInfo) -> str:
    if found.type == tokenize.NAME:
        return "name"
    if found.type == tokenize.NUMBER:
        return "number"
    if found.type == tokenize.OP:
        return "punctuation"
    if tokenize.tok_name[found.type] in (
        "STRING",
        "FSTRING_START",
        "FSTRING_MIDDLE",
        "FSTRING_END",
    ):
        return "string"
    return ""
