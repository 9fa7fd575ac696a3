"""GC5: each rule goes off on a graph that has the fault and is silent on one that has not."""

from __future__ import annotations

from graphcheck.advisory.types import Advisory, ProbeResult
from graphcheck.graph.types import BufferFact, JointGraph, OpCall, ParameterFact, Source, TensorFact
from graphcheck.opset.types import Opset
from graphcheck.rules import (
    gc501_mutated_buffers,
    gc503_parameter_without_gradient,
    gc504_tied_weights,
    gc505_frozen_parameters,
    gc506_random_ops,
    gc507_dynamic_batch,
    gc508_half_optimizer,
    gc509_eval_mode,
)
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity

OPSET = Opset("executorch", "1.5.1", "test", frozenset())


def graph(**parts: object) -> JointGraph:
    values: dict[str, object] = {
        "calls": (),
        "parameters": (ParameterFact("a.weight", "float32", (2,), True, True, module="a"),),
        "buffers": (),
        "inputs": (),
        "loss": None,
        **parts,
    }
    return JointGraph(**values)  # type: ignore[arg-type]


def check(rule: Rule, graph: JointGraph, **context: object) -> list[Finding]:
    return list(rule.check(graph, Context(OPSET, **context)))  # type: ignore[arg-type]


def advisory(rule: str) -> Advisory:
    return Advisory("GCA-1", "t", (), (), ">9", rule, "w", "c", probe="p")


RULES = (
    gc501_mutated_buffers.RULE,
    gc503_parameter_without_gradient.RULE,
    gc504_tied_weights.RULE,
    gc505_frozen_parameters.RULE,
    gc506_random_ops.RULE,
    gc507_dynamic_batch.RULE,
    gc508_half_optimizer.RULE,
    gc509_eval_mode.RULE,
)


def test_a_healthy_graph_is_silent() -> None:
    for rule in RULES:
        assert check(rule, graph()) == []


MUTATED = (
    BufferFact("norm.running_mean", "float32", (3,), True, module="norm"),
    BufferFact("norm.running_var", "float32", (3,), True, initial_nonzero=True, module="norm"),
    BufferFact("seen", "float32", (), True, module="forward"),
    BufferFact("constant", "float32", (), False, module="forward"),
)


def test_mutated_buffers_are_one_finding_that_names_module_or_buffer() -> None:
    (found,) = deduplicate(check(gc501_mutated_buffers.RULE, graph(buffers=MUTATED)))
    assert found.modules == ("norm", "seen")
    assert found.severity is Severity.ERROR
    assert found.message.startswith(
        "the program's training metadata counts 3 mutated buffers as method outputs"
    )
    assert found.evidence == ("initial state is lost: running_var would start as zeros",)


def test_mutated_buffers_are_silent_where_the_probe_measured_right() -> None:
    right = {"GCA-1": ProbeResult("GCA-1", "right")}
    wrong = {"GCA-1": ProbeResult("GCA-1", "wrong", "index 2 for 1")}
    rule = gc501_mutated_buffers.RULE
    known = (advisory("GC501"),)
    assert check(rule, graph(buffers=MUTATED), advisories=known, probes=right) == []
    found = check(rule, graph(buffers=MUTATED), advisories=known, probes=wrong)
    assert found[0].evidence[0] == "GCA-1, measured here: index 2 for 1"
    elsewhere = {"GCA-1": ProbeResult("GCA-1", "right", "fine", version="1.6.0")}
    (norm, _) = check(rule, graph(buffers=MUTATED), advisories=known, probes=elsewhere)
    assert norm.severity is Severity.NOTE
    assert norm.message.startswith(
        "were NOT CHECKED: GCA-1 was not measured on executorch 1.5.1; elsewhere the program's "
        "training metadata counts 3 mutated buffers"
    )
    assert norm.evidence[0] == (
        "GCA-1, NOT MEASURED here (the installed runtime, which probes run on, is 1.6.0): affected "
        "is >9, nothing is known of executorch 1.5.1"
    )


def parameter(name: str, *, trained: bool, line: int = 0) -> ParameterFact:
    cut = Source(module="forward", file="m.py", line=line, code="h = h.detach()") if line else None
    by = "detach()" if line else ""
    module = name.rpartition(".")[0] or "forward"
    return ParameterFact(name, "float32", (2,), True, trained, module=module, cut_by=by, cut=cut)


def lost(*parameters: ParameterFact) -> list[Finding]:
    """Findings as they are told: merged where they say the same."""
    rule = gc503_parameter_without_gradient.RULE
    return list(deduplicate(check(rule, graph(parameters=parameters))))


def test_parameters_without_gradient_are_one_finding_for_the_module_that_has_none() -> None:
    names = [f"spare.{layer}.{kind}" for layer in (0, 1) for kind in ("weight", "bias")]
    spare = [parameter(name, trained=False) for name in names]
    (found,) = lost(parameter("fc.weight", trained=True), *spare)
    assert (found.subject, found.module, found.count) == ("parameter without gradient", "spare", 4)
    assert found.message == (
        "the loss does not depend on spare.0.weight, spare.0.bias, spare.1.weight, spare.1.bias; "
        "the joint export stops with an assertion that names no parameter"
    )
    assert found.evidence == ()
    assert [mend.command for mend in found.mends] == ["graphcheck export --freeze spare"]


def test_many_of_them_are_listed_whole_as_evidence() -> None:
    (found,) = lost(*(parameter(f"spare.{i}.weight", trained=False) for i in range(8)))
    assert "spare.5.weight and 2 more; " in found.message
    assert found.evidence[0].endswith("spare.6.weight, spare.7.weight")


def test_nothing_that_trains_is_frozen_with_them() -> None:
    """A module with a parameter that trains is not named: its other parameters are."""
    found = lost(
        parameter("scale", trained=False),
        parameter("block.gain", trained=False),
        parameter("block.conv.weight", trained=True),
    )
    assert [(f.module, f.mends[0].command) for f in found] == [
        ("forward", "graphcheck export --freeze scale"),
        ("block", "graphcheck export --freeze block.gain"),
    ]


def test_what_cuts_parameters_off_is_named_on_its_line() -> None:
    """Each cut tells of what it cuts off alone."""
    first, second = lost(
        *(parameter(f"a.{kind}", trained=False, line=9) for kind in ("weight", "bias")),
        parameter("b.weight", trained=False, line=11),
        parameter("c.weight", trained=True),
    )
    assert (first.source.module, first.source.file, first.source.line) == ("a", "m.py", 9)
    assert first.message == (
        "the loss does not depend on a.weight, a.bias; the joint export stops with an assertion "
        "that names no parameter; detach() cuts a off on this line"
    )
    assert (second.source.line, second.gradients) == (11, ("b.weight",))


def test_tied_weights_name_both() -> None:
    tied = (
        ParameterFact("e.weight", "float32", (2,), True, True, aliases=("o.weight",), module="e"),
    )
    (found,) = check(gc504_tied_weights.RULE, graph(parameters=tied, strict=True))
    assert found.severity is Severity.NOTE
    assert found.message.startswith("e.weight and o.weight are one tensor")


def test_frozen_parameters_are_counted() -> None:
    frozen = (
        ParameterFact("a.weight", "float32", (2,), False, False, module="a"),
        ParameterFact("b.weight", "float32", (2,), True, True, module="b"),
    )
    (found,) = check(gc505_frozen_parameters.RULE, graph(parameters=frozen))
    assert found.message == "1 of 2 parameters are frozen"


def call(op: str, **arguments: object) -> OpCall:
    return OpCall(0, "n", op, "default", arguments, (), gc501_mutated_buffers.Source(), False)


def test_random_ops_are_a_note_and_dropout_that_drops_nothing_is_none() -> None:
    rule = gc506_random_ops.RULE
    (found,) = check(rule, graph(calls=(call("aten.native_dropout", p=0.5, train=True),)))
    assert found.severity is Severity.NOTE
    assert check(rule, graph(calls=(call("aten.native_dropout", p=0, train=True),))) == []
    assert check(rule, graph(calls=(call("aten.native_dropout", p=0.5, train=False),))) == []
    assert check(rule, graph(calls=(call("aten.cos"),))) == []


def test_dynamic_sizes_name_the_input() -> None:
    inputs = (("x", TensorFact("float32", ("s0", 3), (3, 1), (0, 1))),)
    (found,) = check(gc507_dynamic_batch.RULE, graph(inputs=inputs, dynamic=("s0",)))
    assert "size s0 of x is symbolic" in found.message


def test_half_parameters_warn_with_the_proof_or_as_not_checked() -> None:
    half = (ParameterFact("a.weight", "float16", (2,), True, True, module="a"),)
    rule = gc508_half_optimizer.RULE
    known = (advisory("GC508"),)
    not_run = {"GCA-1": ProbeResult("GCA-1", "not run", detail="no training extension")}
    (found,) = check(rule, graph(parameters=half), advisories=known, probes=not_run)
    assert found.severity is Severity.NOTE
    assert found.message == (
        "was NOT CHECKED: GCA-1 was not measured on executorch 1.5.1; elsewhere 1 trainable "
        "parameter is float16: the SGD of ExecuTorch's Python bindings treats it as float32 and "
        "writes past its storage"
    )
    assert found.evidence == (
        "GCA-1, NOT MEASURED here (no training extension): affected is >9, nothing is known of "
        "executorch 1.5.1",
    )
    wrong = {"GCA-1": ProbeResult("GCA-1", "wrong", "half of them 8e-10")}
    (found,) = check(rule, graph(parameters=half), advisories=known, probes=wrong)
    assert found.message.startswith("1 trainable parameter is float16: ")
    right = {"GCA-1": ProbeResult("GCA-1", "right")}
    assert check(rule, graph(parameters=half), advisories=known, probes=right) == []


def test_modules_in_eval_mode_are_a_note() -> None:
    (found,) = check(gc509_eval_mode.RULE, graph(evaluating=(("drop", "Dropout"),)))
    assert found.severity is Severity.NOTE
    assert (
        found.message == "Dropout is in eval mode, and is checked, exported and trained like that"
    )
