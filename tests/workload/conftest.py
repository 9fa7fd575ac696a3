"""Model files are written into a folder of their own; the import state is put back afterwards."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graphcheck.errors import GraphcheckError
from graphcheck.workload.load import load
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.types import Workload

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path, modules = list(sys.path), set(sys.modules)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        module = sys.modules[name]
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """`write("model.py", source)`; torch, nn and F are imported in front of it, in 3 lines."""

    def write_file(name: str, source: str, head: str = HEAD) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + textwrap.dedent(source))
        return path

    return write_file


@pytest.fixture
def loaded(write: Callable[..., Path]) -> Callable[..., Workload]:
    """Write model.py and load it."""

    def run(source: str, target: str = "model.py", **request: object) -> Workload:
        write("model.py", source)
        return load(WorkloadRequest(target, **request))  # type: ignore[arg-type]

    return run


@pytest.fixture
def refused(
    loaded: Callable[..., Workload],
) -> Callable[..., tuple[str, str, str]]:
    """Write model.py, load it, and give (code, message, hint) of the error."""

    def run(source: str, target: str = "model.py", **request: object) -> tuple[str, str, str]:
        with pytest.raises(GraphcheckError) as caught:
            loaded(source, target, **request)
        error = caught.value
        return getattr(error, "code", "usage"), error.message, error.hint

    return run
