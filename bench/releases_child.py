"""Measures one release of ExecuTorch, in whatever environment it is started; see `releases.py`.

Reads names of items from its command line (`probe:NAME`, `limit:ID:N`, `model:NAME`), prints
`start NAME` and then one line of JSON for each.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Last, so that the torch and executorch that are measured come first.
sys.path += [str(ROOT), str(ROOT / "bench")]
warnings.filterwarnings("ignore")

import torch  # noqa: E402

from graphcheck.advisory.probes import kit  # noqa: E402

_SECONDS = 100.0


def probe(name: str) -> tuple[str, str]:
    from graphcheck.advisory.probes.interface import all_probes

    entry = all_probes()[name]
    judgement = entry.judge(entry.measure(kit.load_in_runtime))
    return ("wrong" if judgement.wrong else "right"), judgement.figure


def limit(name: str, number: int) -> tuple[str, str]:
    from releases_cases import CASES

    operation, inputs = CASES[name][number]()
    run = kit.load_in_runtime(operation, inputs)
    truth = kit.load_in_eager(operation, inputs)(*inputs)
    try:
        found = run(*inputs)
    except RuntimeError as error:
        return "refused", str(error).splitlines()[0][:160]
    error = max(_error(one, other) for one, other in zip(found, truth, strict=False))
    return ("right" if error <= 1e-2 else "wrong"), f"off by {error:.2g} of the largest entry"


def _error(got: Any, truth: Any) -> float:
    if got is None or truth is None or not truth.numel():
        return 0.0
    if got.shape != truth.shape:
        return float("inf")
    if truth.dtype is torch.bool:
        return float((got != truth).any())
    return kit.relative_error(got, truth)


def model(name: str) -> tuple[str, str]:
    """Three runs of the training program on the same inputs: loss and every gradient."""
    path = ROOT / "tests" / "models" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net, inputs = module.get_model(), module.get_example_inputs()
    loss = net(*inputs)
    loss.backward()
    truth = {name: p.grad.clone() for name, p in net.named_parameters()}
    net = module.get_model()
    try:
        program = _lower_with_check(net, inputs)
    except Exception as error:
        return "refused by the exporter", _said(error)
    try:
        started = kit.start(program)
        worst = 0.0
        for _ in range(3):
            outputs = started.forward(list(inputs))
            count = len(truth)
            gradients = outputs[len(outputs) - 2 * count : len(outputs) - count]
            names = _parameter_order(net, inputs)
            worst = max(
                worst,
                abs(float(outputs[0]) / float(loss) - 1),
                *(_error(g, truth[n]) for g, n in zip(gradients, names, strict=True)),
            )
    except RuntimeError as error:
        return "stops in its first step", str(error).splitlines()[0][:200]
    if not (worst <= 1e-3):
        return "silently wrong", f"loss or a gradient off by {worst:.3g} of its largest entry"
    return "right", f"loss and gradients within {worst:.2g}"


def _said(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def _joint(net: Any, inputs: Any) -> Any:
    from torch.export.experimental import _export_forward_backward

    return _export_forward_backward(torch.export.export(net, inputs, strict=False))


def _parameter_order(net: Any, inputs: Any) -> list[str]:
    """The parameters in the order of their gradients in the outputs."""
    signature = _joint(net, inputs).graph_signature
    return [
        spec.target for spec in signature.output_specs if "GRADIENT_TO_PARAMETER" in str(spec.kind)
    ]


def _lower_with_check(net: Any, inputs: Any) -> bytes:
    from executorch.exir import to_edge

    return bytes(to_edge(_joint(net, inputs)).to_executorch().buffer)


def main() -> None:
    import executorch.exir  # noqa: F401
    from executorch import version

    print(f"environment {version.__version__} {torch.__version__}", flush=True)
    for item in sys.argv[1:]:
        kind, *rest = item.split(":")
        print(f"start {item}", flush=True)
        faulthandler.dump_traceback_later(_SECONDS, exit=True)
        try:
            if kind == "limit":
                outcome, figure = limit(rest[0], int(rest[1]))
            else:
                outcome, figure = {"probe": probe, "model": model}[kind](rest[0])
        except Exception as error:
            outcome, figure = "not run", _said(error)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps([item, outcome, figure]), flush=True)


if __name__ == "__main__":
    main()
