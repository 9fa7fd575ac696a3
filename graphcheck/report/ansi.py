"""Colours of the terminal, and wrapping that keeps the indent."""

from __future__ import annotations

import re
import textwrap

__all__ = ["Paint", "wrap"]

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
        subsequent_indent=indent + hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) or indent
