"""`validate --target`: what was named did not run, and the verdict says so."""

from __future__ import annotations

import pytest

from graphcheck.errors import UsageError
from graphcheck.validate.elsewhere import not_the_target


@pytest.mark.parametrize(
    ("target", "notes"),
    [
        ("", ()),
        ("installed", ()),
        (
            "executorch==1.3.1",
            ("executorch 1.3.1 was NOT CHECKED: the steps ran in the installed runtime",),
        ),
    ],
)
def test_note(target, notes) -> None:
    pytest.importorskip("executorch")
    assert not_the_target(target or None) == notes


def test_unknown_target() -> None:
    with pytest.raises(UsageError):
        not_the_target("executorch==9.9")
