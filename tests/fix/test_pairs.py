"""Pairs of files: `x.in.py` is fixed to `x.out.py`, and `x.txt` is what the command says.

The first line of the input may name options: `# fix: --swap NAME --unsafe-fixes`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from fix_words import words

from graphcheck.fixing.types import FixResult

PAIRS = Path(__file__).parent / "pairs"
NAMES = sorted(path.name[: -len(".in.py")] for path in PAIRS.glob("*.in.py"))


def options_of(text: str) -> dict[str, object]:
    first = text.partition("\n")[0]
    given = shlex.split(first.removeprefix("# fix:")) if first.startswith("# fix:") else []
    swaps = [given[i + 1] for i, word in enumerate(given) if word == "--swap"]
    return {"swaps": tuple(swaps), "unsafe": "--unsafe-fixes" in given}


@pytest.mark.parametrize("name", NAMES)
def test_pair(
    name: str, fix: Callable[..., FixResult], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = (PAIRS / f"{name}.in.py").read_bytes()
    file = tmp_path / f"{name}.py"
    file.write_bytes(source)
    options = options_of(source.decode())
    result = fix(file.name, **options)
    assert result.failure == ""
    said = words(result)
    if request.config.getoption("--update"):
        (PAIRS / f"{name}.out.py").write_bytes(file.read_bytes())
        (PAIRS / f"{name}.txt").write_text(said)
    assert file.read_bytes().decode() == (PAIRS / f"{name}.out.py").read_text()
    assert said == (PAIRS / f"{name}.txt").read_text()
    # Once more changes nothing.
    again = fix(file.name, **options)
    assert again.files == ()
    assert file.read_bytes().decode() == (PAIRS / f"{name}.out.py").read_text()


def test_every_input_has_its_partners() -> None:
    assert NAMES
    for name in NAMES:
        assert (PAIRS / f"{name}.out.py").is_file()
        assert (PAIRS / f"{name}.txt").is_file()
