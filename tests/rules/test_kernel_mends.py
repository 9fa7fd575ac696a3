"""The mends that are data (`opsets/mends/`) against the rewrites that exist."""

from __future__ import annotations

import pytest

from graphcheck.opset.load import load
from graphcheck.opset.out_variant import out_variant
from graphcheck.rules.kernels import _entries

# Rewrites of what has a kernel, for findings of other families (wrong or imprecise kernels, the
# layout of what nonzero gives), and of what torch takes apart with a loss.
_OTHER_FAMILIES = (
    *("_in_float32", "_stable", "sum_over_two_dims", "_mask", "_not_empty"),
    *("lstm_dropout", "gru_dropout", "rnn_tanh_dropout", "rnn_relu_dropout"),
)


def test_every_rewrite_that_is_named_exists() -> None:
    interface = pytest.importorskip("graphcheck.rewrite.interface")
    known = {(r.op, r.name): r for r in interface.all_rewrites()}
    for entry in _entries():
        if entry.kind == "rewrite":
            assert (entry.op, entry.name) in known
            assert known[entry.op, entry.name].exact is entry.exact, entry.name


def test_every_rewrite_of_a_missing_kernel_is_named() -> None:
    torch = pytest.importorskip("torch")
    interface = pytest.importorskip("graphcheck.rewrite.interface")
    kernels = load("1.5.1").kernels
    named = {entry.name for entry in _entries()}
    for rewrite in interface.all_rewrites():
        if rewrite.kernels:
            # Of a library, which is a choice of its own.
            continue
        namespace, name, overload = rewrite.op.split(".")
        op = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        if out_variant(op) not in kernels and not rewrite.name.endswith(_OTHER_FAMILIES):
            assert rewrite.name in named, f"{rewrite.op}: opsets/mends/kernels.yaml does not say so"


def test_every_rewrite_that_an_advisory_names_exists() -> None:
    from graphcheck.advisory.load import all_advisories

    interface = pytest.importorskip("graphcheck.rewrite.interface")
    known = {(r.op.rpartition(".")[0], r.name): r for r in interface.all_rewrites()}
    named = 0
    for advisory in all_advisories():
        for mend in advisory.mends:
            if mend["kind"] != "rewrite" or mend["name"] == "buffers":
                continue
            ops = [op for op in advisory.ops if (op, mend["name"]) in known]
            assert ops, f"{advisory.id}: {mend['name']}"
            assert known[ops[0], mend["name"]].exact is mend["exact"]
            named += 1
    assert named >= 15
