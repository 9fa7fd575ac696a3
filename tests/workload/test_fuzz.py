"""Whatever a model file holds and whatever is asked for: a workload, or an error that explains."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphcheck.errors import ModelError, UsageError
from graphcheck.workload.load import load
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.types import Workload

HEAD = "import torch, sys, os\nfrom torch import nn\nimport torch.nn.functional as F\n"
VALUES = [
    "None",
    "3",
    "'text'",
    "[]",
    "{}",
    "torch.randn(2, 3)",
    "(torch.randn(2, 3), torch.tensor([0, 1]))",
    "{'x': torch.randn(2, 3)}",
    "nn.Linear(3, 2)",
    "nn.Linear",
    "nn.Sequential()",
    "nn.CrossEntropyLoss()",
    "F.mse_loss",
    "lambda *a: a",
    "object()",
    "torch",
]
NASTY = [
    "raise ValueError('no')",
    "sys.exit(2)",
    "sys.exit('text')",
    "exit()",
    "1 / 0",
    "raise SystemExit",
    "raise GeneratorExit",
    "raise StopIteration",
    "import no_such_module_at_all",
    "from . import sibling",
    "print('noise', flush=True)",
    "class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd",
    "def f(:",
    "\tx = 1",
    "x = '\\ud800'",
    "def deep(n): return deep(n)\ndeep(0)",
    "del sys.modules[__name__]",
    "sys.argv.clear()",
    "__file__ = 3",
    "torch.empty(10**15)",
    "open('absent.txt')",
    "\x00",
]
NAMES = ["get_model", "model", "get_example_inputs", "example_inputs", "get_loss"]
NAMES += ["get_example_targets", "example_targets", "Net"]
BODIES = ["x.sum()", "x", "(x, x)", "{'out': x}", "None", "x.sum().item()", "x @ x", "F.relu(x, y)"]


def _assigned(name: str, value: str) -> str:
    return f"{name} = {value}"


def _function(name: str, arguments: str, value: str) -> str:
    return f"def {name}({arguments}): return {value}"


def _raising(name: str, nasty: str) -> str:
    body = "\n".join("    " + line for line in nasty.splitlines())
    return f"def {name}():\n{body}"


def _module(name: str, init: str, arguments: str, body: str) -> str:
    return (
        f"class {name}(nn.Module):\n"
        f"    def __init__(self{init}):\n"
        f"        super().__init__()\n"
        f"        self.fc = nn.Linear(3, 2)\n"
        f"    def forward(self, {arguments}): return {body}\n"
    )


LINES = st.one_of(
    st.builds(_assigned, st.sampled_from(NAMES), st.sampled_from(VALUES)),
    st.builds(
        _function,
        st.sampled_from(NAMES),
        st.sampled_from(["", "a", "a=1", "*a", "a, b"]),
        st.sampled_from(VALUES),
    ),
    st.builds(_raising, st.sampled_from(NAMES), st.sampled_from(NASTY)),
    st.builds(
        _module,
        st.sampled_from(["Net", "Other"]),
        st.sampled_from(["", ", width", ", width=3"]),
        st.sampled_from(["x", "x, y", "x, *, y=None", "*x", ""]),
        st.sampled_from(BODIES),
    ),
    st.sampled_from(NASTY),
    st.text(max_size=20),
)
INPUTS = st.lists(
    st.sampled_from(
        ["float32[2,3]", "int64[2]<2", "x=float32[2,3]", "bool[]", "uint8[1,1]", "f16[3]", "[2]"]
    ),
    max_size=3,
).map(tuple)
TARGETS = ["model.py", "model.py:Net", "model.py:get_model", "model.py:nn.Module", "model:Net"]
REQUESTS = st.builds(
    WorkloadRequest,
    target=st.sampled_from(TARGETS) | st.text(max_size=12),
    inputs=INPUTS,
    loss=st.sampled_from(["", "", "mse", "cross_entropy", "kl_div", "sum", "nonsense"]),
    dynamic_batch=st.booleans(),
    num_classes=st.sampled_from([None, None, None, 3]),
    seed=st.sampled_from([0, 5]),
)


def _load(request: WorkloadRequest) -> None:
    refusal: ModelError | UsageError | None = None
    try:
        workload = load(request)
    except (ModelError, UsageError) as error:
        refusal = error
    if refusal is None:
        assert isinstance(workload, Workload)
    else:
        assert refusal.message
        assert refusal.message.isprintable()
        assert len(refusal.message) < 1500


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=st.lists(LINES, max_size=6).map("\n".join), request=REQUESTS)
def test_only_errors_that_explain(source, request):
    here, path, modules, argv = os.getcwd(), list(sys.path), set(sys.modules), list(sys.argv)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            text = (HEAD + source).encode("utf-8", "surrogatepass")
            Path("model.py").write_bytes(text)
            _load(request)
        finally:
            os.chdir(here)
            sys.path[:] = path
            sys.argv[:] = argv
            for name in set(sys.modules) - modules:
                if folder in str(getattr(sys.modules[name], "__file__", "")):
                    del sys.modules[name]
            sys.modules.pop("model", None)
