"""GC1: kernels that are missing. Each rule red on its case, silent on the others'."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_graphs import call, context, findings

from graphcheck.graph.types import OpCall
from graphcheck.opset.load import extend
from graphcheck.rules.interface import all_rules
from graphcheck.rules.types import Severity

MISSING = call("aten.avg_pool2d_backward", "aten::avg_pool2d_backward.grad_input", backward=True)
NO_OUT = call("aten._native_batch_norm_legit_functional", None, core=False)
NO_OUT_CORE = call("aten.some_core_op", None)
NOT_CORE = call("aten.empty_permuted", "aten::empty_permuted.out", core=False)
RUNS_UNCHECKED = call("aten.masked_select", "aten::masked_select.out", core=False)
HEALTHY = [
    call("aten.relu", "aten::relu.out"),
    call("aten.view", "aten::view_copy.out"),
    call("aten.sym_size", None, overload="int", core=False),
    call("aten._assert_tensor_metadata", None, core=False),
    call("aten.full_like", "aten::full_like.out", core=False),
]


@pytest.mark.parametrize(
    ("code", "red"),
    [
        ("GC101", MISSING),
        ("GC102", NO_OUT),
        ("GC102", NO_OUT_CORE),
        ("GC103", NOT_CORE),
        ("GC104", RUNS_UNCHECKED),
    ],
)
def test_red_and_green(code: str, red: OpCall) -> None:
    (finding,) = findings(code, red, *HEALTHY)
    assert finding.code == code
    assert finding.subject == red.op
    assert finding.nodes == (red.node,)
    assert finding.source == red.source
    assert finding.gradients == ("net.conv.weight",)
    assert finding.severity is (Severity.NOTE if code == "GC104" else Severity.ERROR)
    others = [c for c in (MISSING, NO_OUT, NO_OUT_CORE, NOT_CORE, RUNS_UNCHECKED) if c is not red]
    assert all(f.subject != red.op for f in findings(code, *others))


def test_one_code_per_call() -> None:
    calls = (MISSING, NO_OUT, NO_OUT_CORE, NOT_CORE, RUNS_UNCHECKED, *HEALTHY)
    codes = [rule.code for rule in all_rules() if rule.code.startswith(("GC1", "GC2"))]
    found = [f for code in codes for f in findings(code, *calls)]
    assert sorted(f.code for f in found) == ["GC101", "GC102", "GC102", "GC103", "GC104"]


def test_messages() -> None:
    (missing,) = findings("GC101", MISSING)
    assert missing.message == (
        "has no kernel in executorch 1.5.1; the program loads and stops in its first step (0x14)"
    )
    assert missing.evidence == (
        "aten::avg_pool2d_backward.grad_input is not among the 240 kernels of "
        "libexecutorch_kernels_optimized.so",
    )
    (no_out,) = findings("GC102", NO_OUT)
    assert no_out.message == (
        "cannot be lowered: no out variant takes its arguments, and kernels are out variants"
    )
    assert no_out.evidence == ("to_edge refuses it before that: it is not core ATen",)
    (no_out_core,) = findings("GC102", NO_OUT_CORE)
    assert no_out_core.evidence == ("to_executorch stops with `Missing out variants`",)
    (not_core,) = findings("GC103", NOT_CORE)
    assert not_core.message == (
        "is not core ATen, so to_edge refuses it, and executorch 1.5.1 has no kernel for it"
    )
    (unchecked,) = findings("GC104", RUNS_UNCHECKED)
    assert unchecked.message == (
        "is refused by to_edge's IR check, although the runtime has its kernel"
    )


def test_a_kernel_of_the_users_own_is_not_missing() -> None:
    own = extend(context().opset, ["aten::avg_pool2d_backward.grad_input"])
    assert findings("GC101", MISSING, given=replace(context(), opset=own)) == []
    # The IR check does not know the user's library.
    own = extend(context().opset, ["aten::empty_permuted.out"])
    given = replace(context(), opset=own)
    assert findings("GC103", NOT_CORE, given=given) == []
    assert [f.subject for f in findings("GC104", NOT_CORE, given=given)] == ["aten.empty_permuted"]


def test_mends_come_with_exactness() -> None:
    (missing,) = findings("GC101", MISSING)
    kinds = {mend.kind: mend for mend in missing.mends}
    assert kinds["rewrite"].exact
    assert kinds["rewrite"].command == "graphcheck export"
    (no_out,) = findings("GC102", NO_OUT)
    assert [mend.exact for mend in no_out.mends if mend.kind == "rewrite"] == [True]
    (unknown,) = findings("GC102", NO_OUT_CORE)
    assert unknown.mends == ()
