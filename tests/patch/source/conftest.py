from __future__ import annotations

from pathlib import Path

import pytest
from source_trees import EXECUTORCH, copy_of


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A faulty tree in the manner of ExecuTorch."""
    return copy_of(EXECUTORCH, tmp_path / "tree")
