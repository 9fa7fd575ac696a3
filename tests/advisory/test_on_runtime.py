"""The probes on the installed runtime see its faults, and do not blame its healthy kernels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from graphcheck.advisory import run
from graphcheck.advisory.types import ProbeResult
from graphcheck.errors import DeviceError
from graphcheck.runtime.libraries import build_id

# One of each kind; the rest go the same way with other operations.
PROBED = {
    "GCA-2026-0001": "one program, run twice on the same input: gradient off by ",
    "GCA-2026-0002": "kept output / x = 1 at p = 0.5 (right: 2), 1 at p = 0.8 (right: 5)",
    "GCA-2026-0004": "native_layer_norm, 64 elements of data with mean 100, deviation 0.1: ",
    "GCA-2026-0006": "addmm of 2048 terms: relative error ",
    "GCA-2026-0012": "int64 2^24+1, 1, 1 over one dim gives 16777216 (right: 16777219); ",
    "GCA-2026-0013": "flip of a channels-last tensor: off by 0.",
    "GCA-2026-0015": "a program that writes 2 buffers says its gradients begin at output 3 ",
    "GCA-2026-0016": "a buffer of initial value 7 starts as 0",
    "GCA-2026-0017": "native_layer_norm of 512 normally distributed elements: relative error ",
}
VERSION = metadata.version("executorch")


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dict[str, ProbeResult], dict[str, Any]]]:
    """Results by advisory, and the verdicts on healthy operations, from one child process."""
    try:
        build_id()
    except DeviceError as error:
        pytest.skip(error.message)
    folder = tmp_path_factory.mktemp("probes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHCHECK_CACHE_DIR", str(folder))
        patch.setenv("HEALTHY", str(folder / "healthy.json"))
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        patch.setattr(run, "_TASK", "healthy_on_runtime:run_probes")
        found = run.probe(PROBED, timeout=500)
        yield found, json.loads((folder / "healthy.json").read_text())


@pytest.mark.skipif(
    VERSION.partition("+")[0] != "1.5.1", reason=f"what executorch {VERSION} does was not measured"
)
@pytest.mark.parametrize("advisory_id", PROBED)
def test_the_faults_of_1_5_1_are_measured(answers: Any, advisory_id: str) -> None:
    result = answers[0][advisory_id]
    assert result.outcome == "wrong"
    assert result.figure.startswith(PROBED[advisory_id])
    assert result.version == VERSION


def test_healthy_kernels_are_right_by_the_same_measure(answers: Any) -> None:
    judged = answers[1]
    assert len(judged) == 9
    assert {name: figure for name, (wrong, figure) in judged.items() if wrong} == {}
