"""Options of training that cannot be meant."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("rate", ["nan", "inf", "-1"])
def test_learning_rate(rate, capsys, tmp_path) -> None:
    from graphcheck.cli.main import run

    (tmp_path / "net.py").write_text("")
    code = run(["validate", str(tmp_path / "net.py"), "--lr", rate])
    told = capsys.readouterr().err
    assert code == 2
    assert f"--learning-rate {float(rate):g}: it is a finite number of 0 or more." in told
    assert "next: For instance --learning-rate 0.01." in told


@pytest.mark.parametrize(
    ("given", "message", "following"),
    [
        (("adamw", "--eps", "-1"), "eps must be 0 or more, not -1.0", "--eps 1e-8"),
        (
            ("adam", "--betas", "0.9,1.5"),
            "betas must be from 0 to below 1, not (0.9, 1.5)",
            "--betas 0.9,0.999",
        ),
        (
            ("sgd", "--weight-decay", "-0.1"),
            "weight decay must be 0 or more, not -0.1",
            "--weight-decay 0.01",
        ),
        (("sgd", "--momentum", "2"), "momentum must be from 0 to below 1, not 2.0", "--momentum"),
    ],
)
def test_settings_of_the_optimizer(given, message, following) -> None:
    from graphcheck.errors import UsageError
    from graphcheck.options import ValidateOptions
    from graphcheck.validate.optimizer import settings_of

    name, option, text = given
    field = option.removeprefix("--").replace("-", "_")
    value = tuple(map(float, text.split(","))) if "," in text else float(text)
    with pytest.raises(UsageError) as refused:
        settings_of(ValidateOptions("", optimizer=name, **{field: value}))
    assert refused.value.message == message
    assert refused.value.hint.startswith(f"for instance {following}")


@pytest.mark.parametrize(
    ("kind", "name", "eps", "told"),
    [
        ("float16", "adamw", 1e-8, True),
        ("float16", "adam", 1e-8, True),
        ("float16", "adamw", 1e-4, False),
        ("float16", "sgd", 1e-8, False),
        ("bfloat16", "adamw", 1e-8, False),
        ("float32", "adamw", 1e-8, False),
    ],
)
def test_eps_that_is_nothing_in_the_type_of_the_parameters_is_told(kind, name, eps, told) -> None:
    import torch

    from graphcheck.options import ValidateOptions
    from graphcheck.validate.half_eps import half_eps
    from graphcheck.workload.types import Workload

    dtype = getattr(torch, kind)
    net = torch.nn.Linear(2, 2).to(dtype)
    options = ValidateOptions("", optimizer=name, eps=eps)
    notes = half_eps(Workload(net, ()), options)
    assert notes == (
        (
            f"eps 1e-08 is 0 in float16, the type of weight, bias: {name} divides by 0 where a "
            "gradient is below 0.0055, which makes the weight NaN or infinite, in eager PyTorch as "
            "in the runtime; use --eps 1e-4, or parameters in float32",
        )
        if told
        else ()
    )
    if name == "sgd":
        return
    # The note is right: a gradient below that breaks eager training, and no other does.
    make = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    for gradient, breaks in ((0.0, told), (0.005, told), (0.006, False)):
        weight = torch.nn.Parameter(torch.ones(1, dtype=dtype))
        weight.grad = torch.full((1,), gradient, dtype=dtype)
        make([weight], lr=1e-3, eps=eps, foreach=False).step()
        assert bool(torch.isfinite(weight).all()) is not breaks


ROOMS = ("cli", "config.py", "export", "swap", "workload", "patch/library", "validate/optimizer.py")


@pytest.mark.parametrize("room", ROOMS)
def test_every_wrong_usage_says_what_to_do_next(room) -> None:
    import ast
    from pathlib import Path

    import graphcheck

    root = Path(graphcheck.__file__).parent / room
    files = [root] if root.is_file() else sorted(root.rglob("*.py"))
    assert files
    bare = [
        f"{file.name}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "UsageError"
        and len(node.args) + len(node.keywords) < 2
    ]
    assert bare == []
