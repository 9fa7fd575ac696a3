"""Failures of export and of joint capture, told in words of the user's program."""

from __future__ import annotations

import pytest
import torch
from diagnosing import HERE, X, failure, place, workload

from graphcheck.errors import ModelError
from graphcheck.graph.capture import trace
from graphcheck.graph.diagnose import (
    diagnose_export,
    diagnose_joint,
    diagnose_worker,
    precheck,
)
from graphcheck.process import WorkerFailure
from graphcheck.rules.interface import all_rules, rule_by_code


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)


CONTROL_FLOW = (
    "Use torch.where or torch.clamp instead of Python's control flow, decide from shapes, or move "
    "the check in front of the model."
)
WRITTEN = (
    "Use a changed copy of it in forward, keep running values in a buffer, or change it in the "
    "training loop between steps."
)
CASES = [
    (
        "If",
        "GC004",
        "An `if` depends on the values of a tensor, which are not known while tracing ({}).",
        "if y.sum() > 0:",
        CONTROL_FLOW,
    ),
    (
        "While",
        "GC004",
        "A `while` depends on the values of a tensor, which are not known while tracing ({}).",
        "while y.abs().max() > 1:",
        CONTROL_FLOW,
    ),
    (
        "Assert",
        "GC004",
        "An `assert` depends on the values of a tensor, which are not known while tracing ({}).",
        "assert not torch.isnan(y).any()",
        CONTROL_FLOW,
    ),
    (
        "LoopBound",
        "GC004",
        "A loop depends on the values of a tensor, which are not known while tracing ({}).",
        "for _ in range(int(x.abs().max().item())):",
        CONTROL_FLOW,
    ),
    (
        "WritesInPlace",
        "GC008",
        "Parameter fc.weight is written in place by clamp_ in forward ({}).",
        "self.fc.weight.clamp_(-1, 1)",
        WRITTEN,
    ),
    (
        "WritesData",
        "GC008",
        "Parameter fc.weight is written in place by mul_ in forward ({}).",
        "self.fc.weight.data.mul_(0.9)",
        WRITTEN,
    ),
    (
        "ReplacesData",
        "GC008",
        "Parameter fc.weight is replaced by another tensor in forward.",
        "",
        WRITTEN,
    ),
    (
        "NotScalar",
        "GC005",
        "The loss (output 0) has the shape [4, 8]; it must be a scalar ({}).",
        "return self.fc(x).square()",
        "Reduce it with .mean() or .sum(). If it is a prediction, add a loss with --loss, or with "
        "get_loss() and get_example_targets() in the model file.",
    ),
    (
        "OneElement",
        "GC005",
        "The loss (output 0) is int64[]; only a real floating-point number can be differentiated "
        "({}).",
        "return self.fc(x).argmax()",
        "Return the loss before argmax, rounding or a cast to integers.",
    ),
    (
        "PythonNumber",
        "GC005",
        "The loss (output 0) is a float, not a tensor.",
        "",
        "Return the loss as a tensor; do not call .item() or float() on it.",
    ),
    (
        "LossSecond",
        "GC006",
        "The loss is output 1 ([1]), but training differentiates output 0, which is float32[4,8] "
        "({}).",
        "y = self.fc(x)",
        "Return the loss first and detach the others: `return loss, logits.detach()`; in a dict, "
        "put the loss first.",
    ),
    (
        "LossInDict",
        "GC006",
        "The loss is output 1 (['loss']), but training differentiates output 0, which is "
        "float32[4,8] ({}).",
        'return {"logits": y.detach(), "loss": y.sum()}',
        "Return the loss first and detach the others: `return loss, logits.detach()`; in a dict, "
        "put the loss first.",
    ),
    (
        "NotDetached",
        "GC006",
        "Besides the loss, output 1 ([1]) still requires a gradient; only output 0 is "
        "differentiated.",
        "",
        "Detach every output but the loss: `return loss, logits.detach()`.",
    ),
    (
        "Detached",
        "GC007",
        "The loss does not depend on any trainable parameter: the last gradient is cut by detach "
        "({}).",
        "y = self.fc(x).detach()",
        "Remove the cut, or use the trained layers on the way to the loss.",
    ),
    (
        "NoGrad",
        "GC007",
        "The loss does not depend on any trainable parameter: gradients are switched off "
        "(torch.no_grad) where it is computed ({}).",
        "return self.fc(x).sum()",
        "Remove the cut, or use the trained layers on the way to the loss.",
    ),
    (
        "NotUsed",
        "GC007",
        "The loss does not depend on any trainable parameter: none is used on the way to it.",
        "",
        "Remove the cut, or use the trained layers on the way to the loss.",
    ),
    (
        "Frozen",
        "GC007",
        "Frozen has nothing to train: none of its 2 parameters has requires_grad=True.",
        "",
        "Unfreeze the parameters to train: module.requires_grad_(True).",
    ),
    (
        "WrongShape",
        "GC002",
        "forward failed on the example inputs: RuntimeError: mat1 and mat2 shapes cannot be "
        "multiplied (4x3 and 8x8) ({}).",
        "return self.fc(x[:, :3]).sum()",
        "Give inputs that forward accepts; it fails in ordinary PyTorch, too.",
    ),
    (
        "Refuses",
        "GC014",
        "forward raised an error of its own: ValueError: 8 features, not 4 ({}).",
        'raise ValueError(f"{x.shape[1]} features, not 4")',
        "The model's own code raises it, in ordinary PyTorch, too: mend it there.",
    ),
    (
        "NoDerivative",
        "GC011",
        "The operator _unique2 has no derivative ({}).",
        "return torch.unique(self.fc(x)).sum()",
        "Replace it, or detach its input if no gradient has to flow through it.",
    ),
    (
        "WrittenAfterUse",
        "GC011",
        "A tensor that the backward pass needs is written in place by mul_ after it was used ({}).",
        "z.mul_(2)",
        "Make a new tensor: `mul` in place of `mul_`, and use what it returns; the backward pass "
        "of eager PyTorch refuses it, too.",
    ),
    (
        "AddedAfterUse",
        "GC011",
        "A tensor that the backward pass needs is written in place by add_ after it was used ({}).",
        "h += x.mean() - 1",
        "Make a new tensor: `h = h + (x.mean() - 1)`; the backward pass of eager PyTorch refuses "
        "it, too.",
    ),
    (
        "ElementAfterUse",
        "GC011",
        "A tensor that the backward pass needs is written in place by fill_ after it was used "
        "({}).",
        "h[:, 0] = 0",
        "Write into a copy: `h = h.clone()` in the line before; the backward pass of eager PyTorch "
        "refuses it, too.",
    ),
    (
        "LayerAfterUse",
        "GC011",
        "A tensor that the backward pass needs is written in place by relu_ after it was used "
        "({}).",
        "return self.act(torch.sigmoid(self.fc(x))).sum()",
        "Make a new tensor: `relu` in place of `relu_` (inplace=False where it is a layer); the "
        "backward pass of eager PyTorch refuses it, too.",
    ),
    (
        "BufferAfterUse",
        "GC011",
        "A tensor that the backward pass needs is written in place by mul_ after it was used ({}).",
        "self.decay.mul_(0.9)",
        "Read a copy of it (`self.decay.clone()`), or assign the new value (`self.decay = ...`); "
        "the backward pass of eager PyTorch refuses it, too.",
    ),
    (
        "Inverse",
        "GC011",
        "torch's joint export cannot trace the backward pass of aten.linalg_inv, since it checks "
        "its result for errors (aten._linalg_check_errors.default) ({}).",
        "return torch.linalg.inv(self.fc(x) @ x.mT).sum()",
        "torch.linalg.inv_ex computes the same without that check and can be traced, but the "
        "runtime has no kernel for it: compute this outside of the model, or give a kernel of your "
        "own with --kernel-library.",
    ),
    (
        "Power",
        "GC011",
        "torch's joint export cannot trace the backward pass of aten.linalg_matrix_power, since it "
        "checks its result for errors (aten._linalg_check_errors.default) ({}).",
        "return torch.linalg.matrix_power(self.fc(x) @ x.mT, -2).sum()",
        "Compute this outside of the model, or with other operators.",
    ),
    (
        "Scripted",
        "GC003",
        "Scripted runs in eager PyTorch but cannot be exported: TypeError: Linear.forward() takes "
        "2 positional arguments but 3 were given ({}).",
        "return self.scripted(self.fc(x)).sum()",
        "Replace the named operation by tensor operations, or move it out of forward.",
    ),
]


@pytest.mark.parametrize(
    ("name", "code", "message", "line", "hint"), CASES, ids=[case[0] for case in CASES]
)
def test_the_culprit_is_named(name, code, message, line, hint):
    error = failure(name)
    expected = message.format(place(name, line)) if line else message
    assert (error.code, error.message, error.hint) == (code, expected, hint)
    assert error.others == ()


def test_max_norm():
    error = failure("MaxNorm", torch.tensor([0, 1]))
    assert error.code == "GC008"
    assert error.message == (
        "Parameter embed.weight is written in place by embedding_renorm_ in forward "
        f"({place('MaxNorm', 'return self.embed(i).sum()')}). Embedding(max_norm=...) does this."
    )


def test_ctc_loss():
    lengths = torch.tensor([6, 6]), torch.tensor([3, 3])
    error = failure("Ctc", torch.randn(6, 2, 8), torch.randint(1, 5, (2, 3)), *lengths)
    line = place("Ctc", "return self.loss(scores, target, lengths, target_lengths)")
    assert error.code == "GC003"
    assert error.message == (
        "The shape of the result of aten._ctc_loss.Tensor depends on the data, so the graph "
        f"cannot be recorded ({line})."
    )
    assert error.hint == "CTC loss is such an operator: compute it outside the exported model."


def test_a_dynamic_batch_that_the_code_fixes():
    batch = torch.export.Dim("batch", min=2)
    error = failure("FixedBatch", dynamic_shapes={"x": {0: batch}})
    assert error.code == "GC003"
    assert error.message == ("The dim 'batch' was declared dynamic, but the code fixes it to 4.")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("sum", "Input `mode` of forward is of type str ('sum'), not a tensor."),
        (3, "Input `mode` of forward is of type int (3), not a tensor."),
        (None, "Input `mode` of forward is None, not a tensor."),
        ([X, 2.5], "Input `mode[1]` of forward is of type float (2.5), not a tensor."),
        (X.numpy(), "Input `mode` of forward is of type ndarray, not a tensor."),
        (object(), "Input `mode` of forward is of type object, not a tensor."),
    ],
)
def test_inputs_that_are_no_tensors(value, message):
    subject = workload("Mode", X, value)
    (problem,) = precheck(subject)
    assert (problem.code, problem.message, problem.fatal) == ("GC009", message, True)
    with pytest.raises(ModelError) as caught:
        trace(subject)
    assert (caught.value.code, caught.value.message) == ("GC009", message)


def test_torchs_words_on_its_own_graphs_are_left_out():
    error = RuntimeError(
        "No tensor!\n\nWhile executing %mul : [num_users=1]\nUse tlparse to see it"
    )
    found = diagnose_joint(error, workload("Healthy"), None)
    assert (found.code, found.message) == (
        "GC011",
        "The backward graph of Healthy could not be captured: RuntimeError: No tensor.",
    )


def test_out_of_memory():
    error = diagnose_export(
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), workload("Healthy")
    )
    assert (error.code, error.message) == (
        "GC012",
        "Tracing asked for more memory than there is.",
    )


@pytest.mark.parametrize(
    ("worker", "code", "message"),
    [
        (
            WorkerFailure("timeout", "no end after 60 s", "loading model.py", ""),
            "GC012",
            "model.py was stopped while loading model.py: no end after 60 s.",
        ),
        (
            WorkerFailure("memory", "was killed by SIGKILL", "", ""),
            "GC012",
            "model.py was stopped: it took more memory than there is.",
        ),
        (
            WorkerFailure("crash", "was killed by SIGSEGV", "exporting the model", "a\nlast\n\n"),
            "GC001",
            "model.py ended its process while exporting the model: it was killed by SIGSEGV. Its "
            "last words: last",
        ),
    ],
)
def test_a_worker_without_an_answer(worker, code, message):
    error = diagnose_worker(worker, "model.py")
    assert (error.code, error.message) == (code, message)


def test_a_time_out_names_the_users_line():
    frames = [(torch.__file__, 3), (str(HERE / "broken_models.py"), 1), (__file__, 1)]
    failure = WorkerFailure("timeout", "no end after 9 s", "exporting the model", "", frames)
    assert diagnose_worker(failure, "model.py").message == (
        "model.py was stopped while exporting the model: no end after 9 s; it was at "
        f"{place_of_line('broken_models.py', 1)}."
    )


def place_of_line(name: str, line: int) -> str:
    code = (HERE / name).read_text().splitlines()[line - 1].strip()
    return f"{name}:{line} `{code}`"


def test_every_code_has_a_rule_that_explains_it():
    codes = [rule.code for rule in all_rules() if rule.code.startswith("GC0")]
    assert codes == [f"GC{number:03}" for number in range(1, 17)]
    for code in codes:
        rule = rule_by_code(code)
        assert rule is not None
        assert len(rule.explanation) > 300
        assert rule.example
        assert rule.summary.endswith(".")
        assert max(len(line) for line in rule.explanation.splitlines()) <= 100


def test_problems_carry_their_place():
    error = failure("If")
    line = place("If", "if y.sum() > 0:").partition(" ")[0]
    assert (error.file, error.line) == (str(HERE / "broken_models.py"), int(line.split(":")[1]))
