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
