"""The line that constructs a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphcheck.graph.construction import Constructions

nn = pytest.importorskip("torch").nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)  # line A


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 3, 1),
            nn.MaxPool2d(2),  # line B
        )
        self.blocks = nn.ModuleList([Block(), Block()])  # line C
        self.made = nn.ModuleList(Block() for _ in range(2))  # line D


def line(mark: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, text in enumerate(lines, 1) if text.endswith(f"# line {mark}"))


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        ("stem.1", "B"),
        ("blocks.1", "C"),
        ("blocks.0.norm", "A"),
        ("made.1", "D"),
    ],
)
def test_locates_the_line(path: str, mark: str) -> None:
    assert Constructions(Net()).locate(path) == (__file__, line(mark))


def test_an_unknown_path_has_no_line() -> None:
    assert Constructions(Net()).locate("nowhere.1") == ("", 0)
