"""`--prefer patch|rewrite`: what becomes of an op that a kernel library runs right."""

from __future__ import annotations

import pytest

from graphcheck.errors import UsageError
from graphcheck.export.run import export_workload
from graphcheck.export.types import ExportOptions
from graphcheck.graph.types import Source
from graphcheck.rewrite.plan import Choice, Plan
from graphcheck.rules.types import Finding, Severity


def finding(**more) -> Finding:
    return Finding(
        code="GC301",
        severity=Severity.NOTE,
        subject="aten.max_pool2d_with_indices_backward",
        message="adds to memory it does not clear",
        source=Source(module="pool"),
        nodes=("max_pool2d_with_indices_backward",),
        **more,
    )


@pytest.mark.parametrize(
    ("keep_patched", "library", "rewritten"),
    [(False, "", True), (False, "lib.so", True), (True, "", True), (True, "lib.so", False)],
)
def test_only_what_a_library_runs_is_kept(keep_patched, library, rewritten) -> None:
    plan = Plan.of([finding(mitigated=library)], Choice(keep_patched=keep_patched))
    assert bool(plan.reasons) is rewritten


@pytest.mark.parametrize(
    ("prefer", "message", "hint"),
    [
        (
            "patch",
            "--prefer patch needs a kernel library: without one there is no patched kernel to use",
            "build one with graphcheck patch build -o DIR, and name it with --kernel-library",
        ),
        ("luck", "no such preference: 'luck'", "use --prefer rewrite or --prefer patch"),
    ],
)
def test_a_preference_that_cannot_be_meant(prefer, message, hint, tmp_path) -> None:
    options = ExportOptions("x.py", output=str(tmp_path / "x.pte"), prefer=prefer)
    with pytest.raises(UsageError) as refused:
        export_workload(None, options)
    assert (refused.value.message, refused.value.hint) == (message, hint)
