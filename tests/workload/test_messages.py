"""What the user is told when the model cannot be loaded: what, where, why, what next."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcheck.errors import ModelError, UsageError
from graphcheck.workload.load import from_module, load
from graphcheck.workload.request import WorkloadRequest

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)
    def forward(self, x, y):
        return F.cross_entropy(self.fc(x), y)
"""
TRACEBACK = "Run `python model.py` to see the whole traceback."


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (
            "x = undefined\n",
            "model.py could not be imported: NameError: name 'undefined' is not defined "
            "(model.py:4 `x = undefined`).",
            TRACEBACK,
        ),
        (
            "def f(:\n",
            "model.py could not be imported: SyntaxError: invalid syntax (model.py:4 `def f(:`).",
            TRACEBACK,
        ),
        (
            "import sys\nsys.exit(3)\n",
            "model.py could not be imported: it ended the program with exit code 3 "
            "(model.py:5 `sys.exit(3)`).",
            "Keep code that exits under `if __name__ == '__main__':`.",
        ),
        (
            "torch.randn(2, 3) @ torch.randn(2, 3)\n",
            "model.py could not be imported: RuntimeError: mat1 and mat2 shapes cannot be "
            "multiplied (2x3 and 2x3) (model.py:4 `torch.randn(2, 3) @ torch.randn(2, 3)`).",
            TRACEBACK,
        ),
        (
            "x = 1\n",
            "model.py offers no model: no get_model(), no object `model`, no nn.Module subclass.",
            "Add `def get_model():` that returns the torch.nn.Module to train.",
        ),
        (
            NET + "class Other(Net): pass\n",
            "model.py has 2 modules that could be the model: Net, Other.",
            "Name one: `model.py:Other`, or offer get_model().",
        ),
        (
            NET.replace("(self):", "(self, width, *, depth):"),
            "model.py has no model that can be built without arguments: Net() needs width, depth.",
            "Add `def get_model(): return Net(...)` to the file.",
        ),
        (
            NET + "def get_model(): return Net\n",
            "get_model() in model.py returned an object of type type, not a torch.nn.Module.",
            "Let get_model() return the model alone.",
        ),
        (
            NET + "def get_model():\n    raise ValueError('no weights')\n",
            "get_model() in model.py failed: ValueError: no weights "
            "(model.py:11 `raise ValueError('no weights')`).",
            "",
        ),
        (
            NET + "def get_model(): pass\n",
            "get_model() in model.py returned None, not a torch.nn.Module.",
            "Let get_model() return the model alone.",
        ),
        (
            NET + "def get_model(width): return Net()\n",
            "model.py:get_model cannot be called without arguments: it needs width.",
            "Offer a function without arguments, for instance `def get_model(): return "
            "get_model(...)`.",
        ),
        (
            NET + "def get_example_inputs(): 1 / 0\n",
            "get_example_inputs() in model.py failed: ZeroDivisionError: division by zero "
            "(model.py:10 `def get_example_inputs(): 1 / 0`).",
            "",
        ),
        (
            NET + "def get_example_inputs(): pass\n",
            "get_example_inputs() in model.py returned None.",
            "Let get_example_inputs() return.",
        ),
        (
            NET + "def get_loss(): return 3\n",
            "get_loss() in model.py returned an object of type int, which cannot be called.",
            "Return a function or module that is called with output and targets, for instance "
            "torch.nn.CrossEntropyLoss().",
        ),
        (
            "raise MemoryError\n",
            "model.py could not be imported: it asked for more memory than there is "
            "(model.py:4 `raise MemoryError`).",
            "Use smaller example inputs or a smaller model.",
        ),
        (
            NET + "model = nn.Linear(6, 3, device='meta')\nexample_inputs = torch.ones(1, 6)\n",
            "weight is on the device meta; ExecuTorch models are exported from the CPU.",
            "Build the model on the CPU, or move it with .to('cpu').",
        ),
    ],
)
def test_model_file(refused, source, message, hint):
    code, said, next_step = refused(source)
    assert (said, next_step) == (message, hint)
    assert code == ("GC012" if "memory" in message else "GC001")


def test_a_missing_package(refused):
    code, message, hint = refused("import surely_not_installed.sub\n")
    assert code == "GC001"
    assert message == (
        "model.py could not be imported: ModuleNotFoundError: No module named "
        "'surely_not_installed' (model.py:4 `import surely_not_installed.sub`)."
    )
    assert hint.startswith("Install surely_not_installed in the environment of ")


def test_an_error_below_the_file_names_the_innermost_own_line(write):
    write("helper.py", "def build():\n    raise KeyError('depth')\n")
    write("model.py", "import helper\nmodel = helper.build()\n")
    with pytest.raises(ModelError) as caught:
        load(WorkloadRequest("model.py"))
    assert caught.value.message == (
        "model.py could not be imported: KeyError: 'depth' (helper.py:5 `raise KeyError('depth')`)."
    )


@pytest.mark.parametrize(
    ("source", "request_", "message", "hint"),
    [
        (
            NET,
            {},
            "There are no example inputs for Net.forward(x, y) (model.py).",
            "Give one --input for each argument, for instance --input 'float32[2,3]' --input "
            "'float32[2,3]', or add get_example_inputs() to the file.",
        ),
        (
            NET + "example_inputs = torch.randn(4, 6)\n",
            {},
            "Net.forward(x, y) cannot be called with 1 example input: missing a required "
            "argument: 'y'.",
            "Give exactly the arguments of forward, in its order, or by name with --input "
            "'name=float32[2,3]'.",
        ),
        (
            NET,
            {"inputs": ("float32[4,6]", "int64[4]<3", "z=float32[1]")},
            "Net.forward(x, y) cannot be called with 3 example inputs: got an unexpected keyword "
            "argument 'z'.",
            "Give exactly the arguments of forward, in its order, or by name with --input "
            "'name=float32[2,3]'.",
        ),
        (
            NET,
            {"inputs": ("float32[4,5]", "int64[4]<3")},
            "forward failed on the example inputs: RuntimeError: mat1 and mat2 shapes cannot be "
            "multiplied (4x5 and 6x3) (model.py:9 `return F.cross_entropy(self.fc(x), y)`).",
            "Give inputs that Net.forward(x, y) accepts.",
        ),
        (
            NET + "def get_loss(): return lambda output, targets: output\n"
            "example_inputs = (torch.randn(4, 6), torch.zeros(4).long())\n",
            {},
            "The loss is called with output and targets, but there are no example targets.",
            "Add get_example_targets() to the model file, or pass targets=.",
        ),
    ],
)
def test_example_inputs(refused, source, request_, message, hint):
    assert refused(source, **request_) == ("GC002", message, hint)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('raise ValueError("no such mode: 3")', "ValueError: no such mode: 3"),
        ('raise RuntimeError("sizes 3 and 4 differ")', "RuntimeError: sizes 3 and 4 differ"),
        ("assert x is None", "AssertionError"),
        ("return self.fd(x)", "AttributeError: 'Net' object has no attribute 'fd'"),
        ("return self.fc(x) * [1, 2][3]", "IndexError: list index out of range"),
        ('return {}["scale"]', "KeyError: 'scale'"),
        ("return self.fc()", "TypeError: Linear.forward() missing 1 required positional argument:"),
    ],
)
def test_an_error_of_the_models_own_is_no_matter_of_the_inputs(refused, line, told):
    source = NET.replace("return F.cross_entropy(self.fc(x), y)", line)
    code, message, hint = refused(source, inputs=("float32[4,6]", "int64[4]<3"))
    assert code == "GC014"
    assert message.startswith(f"forward raised an error of its own: {told}")
    assert message.endswith(f" (model.py:9 `{line}`).")
    assert hint == "The model's own code raises it, in ordinary PyTorch, too: mend it there."


@pytest.mark.parametrize(
    "line",
    [
        "return x @ x",
        "return self.fc(x.long())",
        "return self.fc(x).softmax(0).long().softmax(0)",
        "return x[9]",
        "return x.sum(5)",
        "return F.cross_entropy(self.fc(x), y + 7)",
        "return nn.BatchNorm2d(6)(x)",
        "return nn.MultiheadAttention(4, 2)(x, x, x)",
        "batch, channels, height = x.shape",
    ],
)
def test_what_does_not_fit_an_operator_of_torch_is_one(refused, line):
    source = NET.replace("return F.cross_entropy(self.fc(x), y)", line)
    code, message, hint = refused(source, inputs=("float32[4,6]", "int64[4]<3"))
    assert code == "GC002"
    assert message.startswith("forward failed on the example inputs: ")
    assert hint == "Give inputs that Net.forward(x, y) accepts."


@pytest.mark.parametrize(
    ("returned", "message", "hint"),
    [
        (
            "None",
            "forward returns NoneType, which holds no tensor to train on.",
            "Return the loss, or predictions together with --loss.",
        ),
        (
            "self.fc(x).argmax(1)",
            "The model returns int64[4]; the loss mse needs a floating-point prediction.",
            "Return the logits (before argmax, rounding or a cast).",
        ),
    ],
)
def test_what_cannot_be_a_prediction(refused, returned, message, hint):
    source = NET.replace("F.cross_entropy(self.fc(x), y)", returned)
    inputs = ("float32[4,6]", "int64[4]<3")
    assert refused(source, inputs=inputs) == ("GC005", message, hint)


@pytest.mark.parametrize(
    ("target", "message", "hint"),
    [
        ("absent.py", "There is no file absent.py", "Check the path of the model."),
        ("model.py:Nett", "model.py has no attribute 'Nett'.", "Did you mean Net?"),
        (
            "model.py:F",
            "model.py:F is of type module, not a torch.nn.Module.",
            "Name a module, a class with a no-argument constructor, or a function that returns "
            "the model.",
        ),
        (".", ". is a folder, not a model file.", "Name the file: `./model.py`."),
        ("data.txt", "data.txt is not a Python file.", "Give a file that ends in .py."),
        (
            "no_such_pkg.mod:make",
            "module no_such_pkg.mod could not be imported: ModuleNotFoundError: No module named "
            "'no_such_pkg'.",
            "Install no_such_pkg",
        ),
    ],
)
def test_targets_that_are_not_there(write, target, message, hint):
    write("model.py", NET)
    write("data.txt", "", head="")
    with pytest.raises(ModelError) as caught:
        load(WorkloadRequest(target))
    assert caught.value.message.startswith(message)
    assert caught.value.hint.startswith(hint)


FORMS = (
    "Give one of: `model.pt2`, `model.py` or `model.py:Net`, `model.pte`, `pkg.mod:factory`, "
    "`torchvision:resnet18`."
)


@pytest.mark.parametrize(
    ("request_", "message", "hint"),
    [
        (WorkloadRequest("resnet18"), "'resnet18' is no target that graphcheck knows.", FORMS),
        (WorkloadRequest(""), "'' is no target that graphcheck knows.", FORMS),
        (
            WorkloadRequest("model.py:"),
            "'model.py:' does not name a class, function or object after the colon.",
            "Write `model.py:Net`, or `model.py` alone.",
        ),
        (
            WorkloadRequest("torchvision:resnet17"),
            "torchvision has no model 'resnet17'.",
            "Did you mean resnet18 or ",
        ),
        (
            WorkloadRequest("model.py", num_classes=3),
            "--num-classes works with torchvision targets only.",
            "Set the number of classes in your own model.",
        ),
        (
            WorkloadRequest("torchvision:raft_small", num_classes=3),
            "torchvision:raft_small has no classes.",
            "Leave out --num-classes for this model.",
        ),
        (
            WorkloadRequest("torchvision:resnet18", num_classes=0),
            "--num-classes 0 is less than 1.",
            "Give at least 1.",
        ),
        (
            WorkloadRequest("model.py", loss="crossentropy"),
            "There is no loss 'crossentropy'.",
            "Did you mean cross_entropy? Known: bce, ",
        ),
        (
            WorkloadRequest("model.py", inputs=("float32[1,6]", "int64[1]<3"), dynamic_batch=True),
            "--dynamic-batch needs example inputs with a batch of at least 2 in dim 0.",
            "Give a larger batch, for instance --input 'float32[4,3,32,32]'.",
        ),
        (
            WorkloadRequest("model.py", inputs=("x=float32[2,6]", "x=float32[2,6]")),
            "The input 'x' is given twice.",
            "Give each input once.",
        ),
    ],
)
def test_usage(write, request_, message, hint):
    write("model.py", NET)
    with pytest.raises(UsageError) as caught:
        load(request_)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


def test_live_modules():
    with pytest.raises(UsageError, match=r"^The model is of type function, not a torch\.nn"):
        from_module(lambda x: x, torch.ones(1))
    with pytest.raises(UsageError, match=r"^loss is of type int, which cannot be called"):
        from_module(nn.Linear(2, 2), torch.ones(1, 2), loss=3)  # type: ignore[arg-type]
    with pytest.raises(ModelError) as caught:
        from_module(nn.Linear(2, 2))
    assert caught.value.code == "GC002"
    assert caught.value.message.startswith("There are no example inputs for Linear.forward(")
