"""GC2: arguments that a kernel refuses or gets wrong, by rule; limits are tested one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_graphs import CL, X, call, findings, tensor

from graphcheck.graph.types import OpCall, TensorFact
from graphcheck.rules.interface import all_rules, rule_by_code
from graphcheck.rules.types import Severity

CONV1D = call(
    "aten.convolution_backward",
    "aten::convolution_backward.out",
    grad_output=tensor(2, 4, 6),
    input=tensor(2, 3, 8),
    weight=tensor(4, 3, 3),
    transposed=False,
    output_mask=[True, True, True],
    backward=True,
)
TRANSPOSED = call(
    "aten.convolution_backward",
    "aten::convolution_backward.out",
    grad_output=tensor(2, 4, 6, 6),
    input=X,
    weight=tensor(3, 4, 2, 2),
    transposed=True,
    output_mask=[True, True, True],
    backward=True,
)
PAD = call("aten.constant_pad_nd", "aten::constant_pad_nd.out", self=X, pad=[-1, -1], backward=True)
FLOAT64 = call(
    "aten._log_softmax", "aten::_log_softmax.out", self=tensor(2, 3, dtype="float64"), dim=1
)
MIXED = call("aten.alias", "aten::alias_copy.out", X, self=CL)
IGNORED = call("aten.cumsum", "aten::cumsum.out", CL, self=CL, dim=1)
RED = {
    "GC201": CONV1D,
    "GC202": TRANSPOSED,
    "GC203": PAD,
    "GC204": FLOAT64,
    "GC205": MIXED,
    "GC206": IGNORED,
}
GREEN = [
    call(
        "aten.convolution_backward",
        "aten::convolution_backward.out",
        X,
        tensor(4, 3, 2, 2),
        grad_output=tensor(2, 4, 3, 4),
        input=X,
        weight=tensor(4, 3, 2, 2),
        transposed=False,
        output_mask=[True, True, False],
    ),
    call("aten.constant_pad_nd", "aten::constant_pad_nd.out", self=X, pad=[1, 0]),
    call("aten._log_softmax", "aten::_log_softmax.out", self=X, dim=1),
    call("aten.alias", "aten::alias_copy.out", CL, self=CL),
    call("aten.cumsum", "aten::cumsum.out", X, self=X, dim=1),
]


@pytest.mark.parametrize("code", RED)
def test_red_and_green(code: str) -> None:
    (finding,) = findings(code, *RED.values(), *GREEN)
    assert finding.code == code
    assert finding.subject == RED[code].op
    assert finding.severity is Severity.ERROR
    assert finding.backward is RED[code].backward
    assert finding.evidence


def test_every_rule_of_the_family_is_here() -> None:
    codes = {rule.code for rule in all_rules() if rule.code.startswith("GC2")}
    # What comes from sizes of the data has its tests in tests/export.
    assert codes - {"GC207"} == set(RED)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "GC201",
            "is refused in the first step (0x12): the backward kernel of convolution takes 2-d "
            "convolutions only (a 4-d weight)",
        ),
        (
            "GC202",
            "is refused in the first step (0x12): the backward kernel of convolution does not take "
            "transposed convolutions",
        ),
        (
            "GC203",
            "is refused in the first step (0x12): the pad kernel refuses a negative pad, and the "
            "backward of every constant pad is one",
        ),
        (
            "GC204",
            "is refused in the first step (0x12): the log_softmax kernel does not take float64",
        ),
        (
            "GC205",
            "is refused in the first step (0x12): its tensors are not in one memory layout, the "
            "default or channels-last (here default and channels-last)",
        ),
        (
            "GC206",
            "is silently wrong here: the kernel counts positions as if channels-last tensors were "
            "in the default memory layout",
        ),
    ],
)
def test_messages(code: str, message: str) -> None:
    (finding,) = findings(code, RED[code])
    assert finding.message == message


def test_another_layout_than_channels_last_is_named_by_its_dim_order() -> None:
    turned = TensorFact("float32", (3, 2, 4, 4), (16, 48, 4, 1), (1, 0, 2, 3))
    (mixed,) = findings("GC205", call("aten.add", "aten::add.out", X, self=X, other=turned))
    assert mixed.message == (
        "is refused in the first step (0x12): its tensors are not in one memory layout, the "
        "default or channels-last (here default and dim order 1, 0, 2, 3)"
    )
    (alone,) = findings("GC205", call("aten.relu", "aten::relu.out", turned, self=turned))
    assert alone.message.endswith(" (here dim order 1, 0, 2, 3)")
    matrix = TensorFact("float32", (4, 3), (1, 4), (1, 0))
    product = call("aten.mm", "aten::mm.out", matrix, self=matrix, mat2=matrix)
    (ignored,) = findings("GC206", product)
    assert ignored.message == (
        "is silently wrong here: a transposed matrix is read as if it were row-major (here dim "
        "order 1, 0)"
    )


def test_a_missing_kernel_is_not_reported_as_refused() -> None:
    """GC1 wins over GC2: one code per call."""
    missing = call("aten.cumprod", "aten::cumprod.out", CL, self=CL, dim=1)
    assert [f.code for code in ("GC101", *RED) for f in findings(code, missing)] == ["GC101"]


@pytest.mark.parametrize(
    ("red", "kinds"),
    [
        (CONV1D, ["rewrite"]),
        (TRANSPOSED, ["rewrite"]),
        (PAD, ["rewrite"]),
        (FLOAT64, []),
        (MIXED, ["layout"]),
        (IGNORED, ["layout"]),
    ],
)
def test_mends(red: OpCall, kinds: list[str]) -> None:
    (finding,) = [f for code in RED for f in findings(code, red)]
    assert [mend.kind for mend in finding.mends] == kinds
    assert all(mend.exact for mend in finding.mends)


def test_swaps_of_the_module_are_mends() -> None:
    source = replace(CONV1D.source, module_type="Conv1d")
    (finding,) = findings("GC201", replace(CONV1D, source=source))
    swap = finding.mends[-1]
    assert (swap.kind, swap.name, swap.exact) == ("swap", "conv1d-as-conv2d", True)
    assert swap.command == "graphcheck fix"


@pytest.mark.parametrize("code", RED)
def test_rules_are_explained(code: str) -> None:
    rule = rule_by_code(code)
    assert rule is not None
    assert "What to do: " in rule.explanation
    assert rule.example
    assert rule.summary.endswith(".")
