"""How lines are put into a text so that they look like their neighbours.

Line ends, the unit of indentation and a byte order mark are those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphcheck.patch.source.tokens import BOM, Token, tokens_of

__all__ = ["Layout", "headers_of"]

_BLANK = re.compile(r"[ \t]*")
_REST_CPP = re.compile(r"[ \t]*(?://[^\n]*?|/\*[^\n]*?\*/[ \t]*)?(?=\r?\n|\Z)")
_REST_PYTHON = re.compile(r"[ \t]*(?:#[^\n]*?)?(?=\r?\n|\Z)")
_OUR_UNIT = {"cpp": 2, "python": 4}


class Layout:
    """Places and texts of insertions into one function; `inside` are the tokens of its body."""

    def __init__(self, text: str, language: str, inside: Sequence[Token]) -> None:
        self._text = text
        self._language = language
        self._inside = inside
        self._rest = _REST_PYTHON if language == "python" else _REST_CPP
        first = next((t for t in inside[1:] if t.kind not in ("newline", "indent")), inside[-1])
        self._newline = _newline_near(text, inside[0].start)
        self._indent = self._indent_of(first.start)
        self._unit = self._find_unit(inside[0].start, first)

    def at_head(self, line: str) -> tuple[int, int, str]:
        """A line of its own, the first in the function."""
        return self._insert_after(self._inside[0].end, self._indent, line)

    def body(self, lines: str) -> tuple[int, int, str]:
        """All that is between the brackets of the function."""
        opening, closing = self._inside[0], self._inside[-1]
        start = self._end_of_line(opening.end)
        start = opening.end if start is None else start
        outer = self._indent_of(closing.start)
        text = self._newline + self._lines(lines, self._indent) + self._newline + outer
        return start, closing.start, text

    def in_line(self, first: Token, text: str) -> str:
        """Text for the place of a match whose first token is `first`."""
        block = self._lines(text.rstrip("\n"), self._indent_of(first.start))
        return block.lstrip(" \t")

    def without(self, first: Token, last: Token) -> tuple[int, int, str]:
        """Nothing in the place of a statement, and no blank line where it had its lines alone."""
        start = self._text.rfind("\n", 0, first.start) + 1
        end = self._end_of_line(last.end)
        if end is None or self._text[start : first.start].strip():
            return first.start, last.end, ""
        return start, self._text.find("\n", end) + 1 or len(self._text), ""

    def before(self, first: Token, lines: str) -> tuple[int, int, str]:
        """Lines before the statement that starts with `first`."""
        indent = self._indent_of(first.start)
        start = self._text.rfind("\n", 0, first.start) + 1
        block = self._lines(lines, indent)
        if self._text[start : first.start].strip():  # another statement on the same line
            return first.start, first.start, block.lstrip(" \t") + self._newline + indent
        return start, start, block + self._newline

    def after(self, first: Token, last: Token, lines: str) -> tuple[int, int, str]:
        """Lines after the statement from `first` to `last`, or at the head of its block."""
        indent = self._indent_of(first.start)
        opens = last.text == "{" or (self._language == "python" and last.text == ":")
        return self._insert_after(last.end, indent + self._unit if opens else indent, lines)

    def _insert_after(self, offset: int, indent: str, lines: str) -> tuple[int, int, str]:
        block = self._lines(lines, indent)
        end = self._end_of_line(offset)
        if end is not None:
            return end, end, self._newline + block
        # What follows on the same line moves to a line of its own.
        rest = _BLANK.match(self._text, offset)
        assert rest is not None
        return offset, rest.end(), self._newline + block + self._newline + indent

    def _end_of_line(self, offset: int) -> int | None:
        """The end of the line if nothing but a comment follows on it."""
        found = self._rest.match(self._text, offset)
        return found.end() if found is not None else None

    def _lines(self, lines: str, indent: str) -> str:
        return self._newline.join(
            indent + self._own_unit(line) if line.strip() else ""
            for line in lines.rstrip("\n").split("\n")
        )

    def _own_unit(self, line: str) -> str:
        width = _OUR_UNIT[self._language]
        spaces = len(line) - len(line.lstrip(" "))
        levels, left = divmod(spaces, width)
        return self._unit * levels + " " * left + line[spaces:]

    def _indent_of(self, offset: int) -> str:
        start = self._text.rfind("\n", 0, offset) + 1
        if start == 0 and self._text.startswith(BOM):
            start = len(BOM)
        found = _BLANK.match(self._text, start)
        return found[0] if found is not None else ""

    def _find_unit(self, opening: int, first: Token) -> str:
        """One level: what the body is indented more than the bracket that closes it."""
        ours = " " * _OUR_UNIT[self._language]
        if self._language == "python":
            outer = self._indent_of(self._head_line(opening))
        else:
            outer = self._indent_of(self._inside[-1].start)
        same_line = "\n" not in self._text[opening : first.start]
        if same_line or not self._indent.startswith(outer) or self._indent == outer:
            return "\t" if self._indent.startswith("\t") else ours
        return self._indent.removeprefix(outer)

    def _head_line(self, opening: int) -> int:
        """Where the line starts on which the `def` of this colon is."""
        start = opening
        while start > 0:
            start = self._text.rfind("\n", 0, start)
            if re.match(r"[ \t]*(?:async[ \t]+)?def\b", self._text[start + 1 :]):
                return start + 1
            if start < 0:
                break
        return 0


def headers_of(text: str, wanted: Sequence[str]) -> str:
    """The text with `#include` lines for the wanted headers that it does not have."""
    directives = [token for token in tokens_of(text, "cpp") if token.kind == "directive"]
    includes = [t for t in directives if re.match(r"#\s*include\b", t.text)]
    have = {re.sub(r"#\s*include\s*", "", t.text).strip() for t in includes}
    missing = [header for header in wanted if header not in have]
    if not missing:
        return text
    newline = _newline_near(text, 0)
    lines = newline.join(f"#include {header}" for header in missing)
    if includes:
        end = text.find("\n", includes[-1].end)
        end = len(text) if end < 0 else end
        end = end - 1 if text[:end].endswith("\r") else end
        return text[:end] + newline + lines + text[end:]
    start = len(BOM) if text.startswith(BOM) else 0
    return text[:start] + lines + newline + text[start:]


def _newline_near(text: str, offset: int) -> str:
    """The line end in use at this place of the text."""
    end = text.find("\n", offset)
    if end < 0:
        end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"
