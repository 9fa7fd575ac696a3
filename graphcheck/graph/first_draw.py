"""The line of the user's files that draws the first random number of Python's or NumPy's."""

from __future__ import annotations

import ast
import inspect
import random
import re
import sys
from collections.abc import Iterable
from types import FrameType, ModuleType
from typing import Any

from graphcheck.graph.own_sources import own_modules
from graphcheck.graph.random_pass import RandomPass, state_of
from graphcheck.graph.surroundings import Surroundings
from graphcheck.workload.types import Workload

__all__ = ["DRAWS", "first_draw"]

DRAWS = re.compile(
    r"(?<![\w.])(?:(?:np\.|numpy\.)?random|secrets)\.\w"
    r"|from (?:(?:numpy\.)?random|secrets) import|import (?:numpy\.random|random|secrets) as"
    r"|from numpy import random|default_rng|RandomState|SystemRandom"
)
"""What source has in it that draws random numbers, or may."""
_CALLS = re.compile(r"^((np\.|numpy\.)?random|secrets)\.\w|default_rng$|Random(State)?$")
"""What is called where forward itself makes a generator."""

_MOST = 20_000
"""Lines of the user's that are watched."""


def first_draw(workload: Workload, around: Surroundings) -> tuple[str, int]:
    """File and line; ("", 0) where it is not found.

    One pass in which the generators are looked at after every line. A generator that forward itself
    makes is not among them: then the line that makes the first one, in the functions that ran.
    """
    homes = own_modules(workload.module)
    watch = _Watch({home.__name__ for home in homes})
    tracer = sys.gettrace()
    try:
        RandomPass(workload, around, 0, watching=watch.start)
    except Exception:
        return "", 0
    finally:
        sys.settrace(tracer)
    return watch.found or _made(homes, watch.ran)


class _Watch:
    """A trace function for lines of modules of these names."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.generators: list[Any] = []
        self.states: list[Any] = []
        self.last: tuple[str, int] | None = None
        self.found: tuple[str, int] | None = None
        self.lines = 0
        self.ran: dict[tuple[str, int], None] = {}

    def start(self, generators: list[Any]) -> None:
        # One without a state would seem to be drawn from at every line.
        self.generators = [g for g in generators if not isinstance(g, random.SystemRandom)]
        self.states = [state_of(generator) for generator in self.generators]
        sys.settrace(self.called)

    def called(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.found or self.lines > _MOST or not self._is_own(frame):
            return None
        self.ran.setdefault((frame.f_globals["__name__"], frame.f_code.co_firstlineno))
        self._look()
        return self.line

    def line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.found or self.lines > _MOST:
            return None
        self.lines += 1
        self._look()
        at: FrameType | None = frame.f_back if event == "return" else frame
        while at is not None and not self._is_own(at):
            at = at.f_back
        self.last = (at.f_code.co_filename, at.f_lineno) if at else None
        return self.line

    def _is_own(self, frame: FrameType) -> bool:
        return frame.f_globals.get("__name__") in self.names

    def _look(self) -> None:
        if self.last and [state_of(generator) for generator in self.generators] != self.states:
            self.found = self.last


def _made(homes: Iterable[ModuleType], ran: Iterable[tuple[str, int]]) -> tuple[str, int]:
    """Where a function makes a generator, in the order in which they ran."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for home in homes:
        try:
            tree = ast.parse(inspect.getsource(home))
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            lines = [
                call.lineno
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and _CALLS.search(ast.unparse(call.func))
            ]
            if lines:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                found[home.__name__, first] = inspect.getsourcefile(home) or "", min(lines)
    return next((found[where] for where in ran if where in found), ("", 0))
