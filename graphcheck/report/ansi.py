"""Colours of the terminal, and wrapping that keeps the indent."""

from __future__ import annotations

import re
import textwrap

__all__ = ["Paint", "closing", "wrap"]

_CODES = {
    "red": "31",
    "yellow": "33",
    "green": "32",
    "cyan": "36",
    "bold": "1",
    "dim": "2",
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Paint:
    """`Paint(color=True)("text", "red", "bold")`; without colour the text is returned as it is."""

    def __init__(self, *, color: bool) -> None:
        self.color = color

    def __call__(self, text: str, *styles: str) -> str:
        if not (self.color and text and styles):
            return text
        codes = ";".join(_CODES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"


def wrap(text: str, width: int | None, indent: str = "", hang: str = "    ") -> str:
    """`text` on one line after `indent`, or wrapped to `width` columns with `hang` more indent.

    `indent` may be a bullet; the lines that follow get blanks in its place.
    Line breaks in the text become spaces and control characters (a model's own escape codes)
    are dropped. Words such as paths and commands are never broken.
    """
    clean = _CONTROL.sub("", " ".join(text.split()))
    if width is None:
        return indent + clean
    lines = textwrap.wrap(
        clean,
        max(width, 40),
        initial_indent=indent,
        subsequent_indent=" " * len(indent) + hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) or indent


def closing(summary: str, command: str, width: int | None, paint: Paint, *styles: str) -> str:
    """The end of a report: summary and next command on one line, or on two where it is narrow.

    The command is never broken, so that it can be copied.
    """
    following = f"Next: {command}" if command else ""
    shown = wrap(summary, width)
    fits = width is None or len(shown) + 1 + len(following) <= width
    painted = "\n".join(paint(line, *styles, "bold") for line in shown.splitlines())
    if not following:
        return painted
    return f"{painted}{' ' if fits else chr(10)}{following}"
