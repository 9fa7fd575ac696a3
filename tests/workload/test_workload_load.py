"""What a model file may offer, and what is assumed when it does not."""

from __future__ import annotations

import linecache
import math
import pickle
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from graphcheck.workload.load import from_module, load
from graphcheck.workload.losses import LOSSES
from graphcheck.workload.request import WorkloadRequest

LOSS_NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)
    def forward(self, x, y):
        return F.cross_entropy(self.fc(x), y)
example_inputs = torch.randn(4, 6), torch.randint(0, 3, (4,))
"""
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)
    def forward(self, x):
        return self.fc(x)
example_inputs = torch.randn(4, 6)
"""


def loss_of(workload):
    result = workload.module(*workload.inputs, **workload.kwargs)
    return result[0] if isinstance(result, tuple) else result


def test_a_loss_is_taken_as_it_is(loaded):
    workload = loaded(LOSS_NET)
    assert type(workload.module).__name__ == workload.root_type == "Net"
    assert (workload.prefix, workload.guesses) == ("", ())
    assert [tuple(tensor.shape) for tensor in workload.inputs] == [(4, 6), (4,)]
    assert workload.module.training
    assert Path(workload.file).name == "model.py"


def test_get_model_comes_before_classes_and_objects(loaded):
    workload = loaded(LOSS_NET + "model = nn.Linear(1, 1)\ndef get_model():\n    return Net()\n")
    assert workload.root_type == "Net"


def test_an_object_comes_before_classes(loaded):
    assert loaded(LOSS_NET + "class Other(Net): pass\nmodel = Other()\n").root_type == "Other"


@pytest.mark.parametrize("name", ["Net", "make", "ready", "Holder.net"])
def test_a_name_after_the_colon(loaded, name):
    source = LOSS_NET + (
        "def make(): return Net()\nready = Net()\nclass Holder: net = ready\nclass B(Net): pass\n"
    )
    assert loaded(source, f"model.py:{name}").root_type == "Net"


def test_modes_are_left_as_given(loaded):
    workload = loaded(
        NET + "def get_model():\n    net = Net()\n    net.fc.eval()\n    return net\n",
        loss="mse",
    )
    assert workload.module.training
    assert workload.module.model.training
    assert not workload.module.model.fc.training


def test_loading_changes_neither_buffers_nor_the_random_state(loaded):
    source = """
    def get_model():
        return nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.Linear(6, 3))
    example_inputs = torch.randn(4, 6)
    """
    workload = loaded(source)
    norm = workload.module.model[1]
    assert int(norm.num_batches_tracked) == 0
    assert torch.equal(norm.running_mean, torch.zeros(6))
    again = loaded(source)
    for one, two in zip(workload.module.parameters(), again.module.parameters(), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(workload.inputs[1], again.inputs[1])


@pytest.mark.parametrize("draw", ["torch.randn(4, 6)", "np.random.randn(4, 6)"])
def test_what_a_file_draws_is_the_same_at_every_load(loaded, draw):
    text = "import numpy as np\n" + LOSS_NET.replace(
        "torch.randn(4, 6)", f"torch.as_tensor({draw}).float()"
    )
    first, again = loaded(text), loaded(text)
    assert torch.equal(first.inputs[0], again.inputs[0])
    assert torch.equal(first.module.fc.weight, again.module.fc.weight)


def test_the_users_loss(loaded):
    workload = loaded(
        NET + "def get_loss(): return nn.MSELoss()\n"
        "def get_example_targets(): return torch.zeros(4, 3)\n"
    )
    assert workload.prefix == "model."
    assert [name for name, _ in workload.module.named_parameters()] == [
        "model.fc.weight",
        "model.fc.bias",
    ]
    assert workload.guesses == ()
    expected = workload.module.model(workload.inputs[0]).square().mean()
    assert torch.equal(loss_of(workload), expected)


def test_get_loss_may_be_the_loss_itself(loaded):
    workload = loaded(
        NET + "def get_loss(output, targets): return (output * targets).sum()\n"
        "example_targets = torch.ones(4, 3)\n"
    )
    assert torch.equal(loss_of(workload), workload.module.model(workload.inputs[0]).sum())


def test_a_loss_of_the_output_alone(loaded):
    workload = loaded(NET + "def get_loss(): return lambda output: output.square().mean()\n")
    assert len(workload.inputs) == 1
    assert loss_of(workload).shape == ()


def test_targets_of_a_known_loss_are_made_up(loaded):
    workload = loaded(NET + "def get_loss(): return nn.CrossEntropyLoss()\n")
    assert workload.guesses == ("No targets were given; random class indices int64[4] were used.",)


def test_a_guessed_loss_is_told(loaded):
    workload = loaded(NET)
    assert workload.guesses == (
        "forward returns float32[4,3] and no loss was given; cross_entropy was used.",
        "No targets were given; random class indices int64[4] were used.",
    )
    assert loss_of(workload).shape == ()


@pytest.mark.parametrize(
    ("shape", "output", "loss"),
    [
        ("4,6", "self.fc(x)", "cross_entropy"),
        ("2,3,4,6", "self.fc(x).movedim(-1, 1)", "cross_entropy"),
        ("2,5,6", "self.fc(x)", "mse"),
        ("4,6", "self.fc(x)[:, :1]", "mse"),
        ("4,6", "x + self.fc(x).sum()", "mse"),
        ("6", "self.fc(x)", "mse"),
    ],
)
def test_the_guess_follows_the_shape(loaded, shape, output, loss):
    source = NET.replace("return self.fc(x)", f"return {output}")
    workload = loaded(source, inputs=(f"float32[{shape}]",))
    assert f"no loss was given; {loss} was used." in workload.guesses[0]
    assert loss_of(workload).shape == ()


@pytest.mark.parametrize("loss", sorted(LOSSES.keys() - {"bce"}))
def test_every_named_loss_trains(loaded, loss):
    workload = loaded(NET, loss=loss)
    value = loss_of(workload)
    assert value.shape == ()
    value.backward()
    gradient = workload.module.model.fc.weight.grad
    assert bool(torch.isfinite(gradient).all())
    assert float(gradient.abs().max()) > 0


def test_bce_takes_probabilities(loaded):
    workload = loaded(NET.replace("return self.fc(x)", "return self.fc(x).sigmoid()"), loss="bce")
    assert set(workload.inputs[1].unique().tolist()) <= {0.0, 1.0}
    assert loss_of(workload).shape == ()


def test_other_outputs_are_detached(loaded):
    workload = loaded(
        LOSS_NET.replace(
            "return F.cross_entropy(self.fc(x), y)",
            "z = self.fc(x); return F.cross_entropy(z, y), z",
        )
    )
    loss, scores = workload.module(*workload.inputs)
    assert loss.requires_grad
    assert not scores.requires_grad
    assert workload.guesses == (
        "forward returns more than the loss; gradients of the other outputs were cut off "
        "(detached), since ExecuTorch trains on output 0 alone.",
    )


def test_outputs_that_the_model_detaches_itself_are_not_told_of(loaded):
    workload = loaded(
        LOSS_NET.replace(
            "return F.cross_entropy(self.fc(x), y)",
            "z = self.fc(x); return F.cross_entropy(z, y), z.detach(), z.argmax(1)",
        )
    )
    assert workload.guesses == ()
    assert workload.prefix == ""
    loss, scores, best = workload.module(*workload.inputs)
    assert loss.requires_grad
    assert not scores.requires_grad
    assert best.shape == (4,)


def test_the_loss_on_the_example_data_is_kept_where_forward_was_run(loaded):
    workload = loaded(LOSS_NET)
    assert workload.example_loss == pytest.approx(float(workload.module(*workload.inputs)))
    named = loaded(NET, loss="mse")
    assert named.example_loss == pytest.approx(float(named.module(*named.inputs)))
    bad = loaded(LOSS_NET.replace("return F.", "return (-x.abs()).log().mean() + F."))
    assert math.isnan(bad.example_loss)


def test_a_dict_of_inputs_goes_by_name(loaded):
    workload = loaded(
        LOSS_NET.replace("example_inputs = torch.randn(4, 6), ", "example_inputs = ").replace(
            "torch.randint(0, 3, (4,))", "dict(y=torch.tensor([1]), x=torch.randn(1, 6))"
        )
    )
    assert workload.inputs == ()
    assert sorted(workload.kwargs) == ["x", "y"]


def test_a_dict_goes_whole_into_a_single_argument(loaded):
    workload = loaded(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(6, 3)
            def forward(self, batch):
                return F.cross_entropy(self.fc(batch["x"]), batch["y"])
        def get_example_inputs():
            return {"x": torch.randn(4, 6), "y": torch.zeros(4, dtype=torch.long)}
        """
    )
    assert list(workload.inputs[0]) == ["x", "y"]


def test_inputs_from_the_command_line_win(loaded):
    workload = loaded(LOSS_NET, inputs=("float32[2,6]", "y=int64[2]<3"))
    assert tuple(workload.inputs[0].shape) == (2, 6)
    assert tuple(workload.kwargs["y"].shape) == (2,)


def test_an_integer_input_without_bound_is_told(loaded):
    workload = loaded(LOSS_NET, inputs=("float32[2,6]", "int64[2]"))
    assert workload.guesses == (
        "Values of int64[2] are 0 or 1, since no bound was given; write `int64[2]<10` for values "
        "from 0 to 9.",
    )


def test_names_of_arguments_survive_the_wrapper(loaded):
    workload = loaded(NET, loss="mse", dynamic_batch=True)
    assert list(workload.dynamic_shapes) == ["x", "target"]
    program = torch.export.export(
        workload.module, workload.inputs, dynamic_shapes=workload.dynamic_shapes
    )
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    assert names == ["p_model_fc_weight", "p_model_fc_bias", "x", "target"]
    assert not isinstance(program.graph.find_nodes(op="placeholder")[-1].meta["val"].shape[0], int)


def test_an_argument_called_target_keeps_its_name(loaded):
    workload = loaded(
        NET.replace("(self, x)", "(self, target)").replace("fc(x)", "fc(target)"), loss="mse"
    )
    assert loss_of(workload).shape == ()
    assert torch.export.export(workload.module, workload.inputs).graph_signature.user_inputs == (
        "target",
        "loss_target",
    )


@pytest.mark.parametrize(
    ("source", "expected", "sentence"),
    [
        (
            "return {'out': self.fc(x), 'aux': self.fc(x + 1)}",
            "ce(z, y) + 0.5 * ce(z1, y)",
            "Output 'out' is taken as the prediction, with 0.5 times 'aux' added to the loss.",
        ),
        (
            "return {'features': x, 'logits': self.fc(x)}",
            "ce(z, y)",
            "Output 'logits' is taken as the prediction; 1 more output is ignored.",
        ),
        (
            "return self.fc(x), x, x",
            "ce(z, y)",
            "Output number 0 is taken as the prediction; 2 more outputs are ignored.",
        ),
    ],
)
def test_dicts_and_tuples_of_predictions(loaded, source, expected, sentence):
    workload = loaded(NET.replace("return self.fc(x)", source), loss="cross_entropy")
    x, y = workload.inputs
    fc = workload.module.model.fc
    values = {"ce": nn.functional.cross_entropy, "z": fc(x), "z1": fc(x + 1), "y": y}
    assert torch.allclose(loss_of(workload), eval(expected, values))
    assert workload.guesses[0] == sentence


def test_lazy_modules_are_initialised(loaded):
    workload = loaded(
        "model = nn.Sequential(nn.LazyLinear(3))\nexample_inputs = torch.randn(4, 6)\n"
    )
    assert tuple(workload.module.model[0].weight.shape) == (3, 6)
    assert workload.guesses[0] == (
        "Lazy modules were initialised by one forward pass on the example inputs."
    )


def test_imports_work_as_python_does_them(write, folder):
    write("sibling.py", "WIDTH = 6\n")
    write("pkg/__init__.py", "")
    write("pkg/layers.py", "def layer(): return nn.Linear(6, 3)\n")
    write("pkg/net.py", "from .layers import layer\ndef get_model(): return layer()\n")
    write("model.py", "from sibling import WIDTH\nmodel = nn.Linear(WIDTH, 3)\n")
    request = {"inputs": ("float32[2,6]",), "loss": "mse"}
    assert load(WorkloadRequest("model.py", **request)).root_type == "Linear"
    assert load(WorkloadRequest("pkg/net.py", **request)).root_type == "Linear"
    assert load(WorkloadRequest("pkg.net:get_model", **request)).root_type == "Linear"
    assert load(WorkloadRequest(str(folder / "pkg" / "net.py"), **request)).root_type == "Linear"


def test_main_code_is_not_run_and_arguments_are_hidden(loaded, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["graphcheck", "--input", "x"])
    workload = loaded(
        LOSS_NET + "import sys\nassert len(sys.argv) == 1, sys.argv\n"
        "if __name__ == '__main__':\n    raise SystemExit('training')\n"
    )
    assert workload.root_type == "Net"
    assert sys.argv[0] == "graphcheck"


def test_classes_can_be_pickled_and_inspected(loaded):
    import inspect

    workload = loaded(LOSS_NET)
    assert type(pickle.loads(pickle.dumps(workload.module))) is type(workload.module)
    assert "self.fc = nn.Linear(6, 3)" in inspect.getsource(type(workload.module))
    assert linecache.getline(workload.file, 1) == "import torch\n"


def test_a_file_named_like_a_library_does_not_shadow_it(write):
    write("json.py", LOSS_NET)
    workload = load(WorkloadRequest("json.py"))
    assert workload.root_type == "Net"
    import json

    assert json.loads("[1]") == [1]


def test_a_changed_file_is_read_again(loaded):
    assert loaded(LOSS_NET).root_type == "Net"
    assert loaded(LOSS_NET.replace("Net", "Changed")).root_type == "Changed"


class Live(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * mask


def test_a_live_module():
    module = Live()
    inputs = {"x": torch.randn(4, 6), "mask": torch.ones(4, 3)}
    workload = from_module(module, inputs, loss="cross_entropy", targets=torch.tensor([0, 1, 2, 0]))
    assert workload.module.model is module
    assert workload.target == "Live"
    assert workload.file == __file__
    assert workload.guesses == ()
    workload = from_module(module, ("float32[4,6]", "mask=float32[4,3]"), nn.MSELoss())
    assert loss_of(workload).shape == ()
    program = torch.export.export(workload.module, workload.inputs, workload.kwargs)
    assert program.graph_signature.user_inputs == ("x", "target", "mask")


def test_a_loss_without_reduction_is_not_taken_for_a_prediction() -> None:
    import torch

    from graphcheck.errors import ModelError
    from graphcheck.workload.load import from_module

    class PerSample(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self.fc(x), y, reduction="none")

    inputs = (torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1]))
    with pytest.raises(ModelError, match="loss without reduction") as caught:
        from_module(PerSample(), inputs)
    assert caught.value.code == "GC005"
    assert from_module(PerSample(), inputs, loss="mse").guesses
