"""Fixtures shared by all tests."""

from __future__ import annotations

import os

import pytest

# One thread per test process: the machine is shared by pytest's workers.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="Write the golden files anew.")
