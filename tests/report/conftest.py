"""The golden file fixture: `pytest --update` writes the files anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent / "golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares with the file of that name, or writes it with --update."""
    update = request.config.getoption("--update")

    def compare(name: str, text: str) -> None:
        path = _FOLDER / name
        if update:
            path.write_text(text, encoding="utf-8")
            return
        assert path.is_file(), f"{path} is missing: run pytest with --update and look at it"
        assert text == path.read_text(encoding="utf-8")

    return compare
