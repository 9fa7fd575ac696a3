"""Names that `--rewrite` and `--no-rewrite` take, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import graphcheck
from graphcheck.errors import UsageError
from graphcheck.export.types import ExportOptions
from graphcheck.rewrite.plan import check_choice, check_names, known_rewrite_names


def test_near_names_are_offered_or_else_all() -> None:
    with pytest.raises(UsageError) as caught:
        check_names("--rewrite", ["sort_topkk"])
    assert caught.value.message == "--rewrite: there is no rewrite for sort_topkk"
    assert caught.value.hint == "did you mean sort_topk, sort_stable_topk?"
    for name in ("nosuch", "", "aten."):
        with pytest.raises(UsageError) as caught:
            check_names("--no-rewrite", [name])
        assert caught.value.hint == (
            f"rewrites are {', '.join(sorted(known_rewrite_names()))}; the op of one is taken, too"
        )


@pytest.mark.parametrize(
    ("always", "never"),
    [
        ("sort_topk", "sort_topk"),
        ("sort_topk", "aten.sort"),
        ("aten.cdist_backward", "cdist_backward"),
    ],
)
def test_a_rewrite_cannot_be_asked_for_and_forbidden(always: str, never: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_choice([always], ["median_topk", never])
    assert caught.value.message == (
        f"--rewrite {always} and --no-rewrite {never} contradict each other"
    )
    assert caught.value.hint == "leave one of the two out"


def test_one_of_several_rewrites_of_an_op_may_be_forbidden() -> None:
    check_choice(["aten.sort"], ["sort_stable_topk"])


def test_export_says_that_an_option_forbids_the_mend(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2))
    for name in ("max_pool2d_backward_scatter", "aten.max_pool2d_with_indices_backward"):
        result = graphcheck.export(
            module,
            torch.randn(2, 1, 8, 8),
            tmp_path / "net.pte",
            loss="mse",
            options=ExportOptions("Net", no_rewrite=(name,), prove=False),
        )
        assert result.failure == (
            f"--no-rewrite {name} forbids the rewrite of aten.max_pool2d_with_indices_backward"
        )
        assert result.hint == f"leave --no-rewrite {name} out, or see the findings for other mends"
        assert result.findings


def test_the_help_says_that_rewrites_and_ops_are_named() -> None:
    from graphcheck.cli.verbs.export import NoRewriteOption, RewriteOption

    for option in (RewriteOption, NoRewriteOption):
        (told,) = option.__metadata__
        assert "its name, or its op (aten.sort)" in told.help
