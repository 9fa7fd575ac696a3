"""Hand-made reports and verdicts that use every part an output format has to show."""

from __future__ import annotations

from pathlib import Path

from graphcheck.graph.types import Source
from graphcheck.report.types import NotChecked, Report, Suppressed, UnusedSuppression
from graphcheck.rules.types import Finding, Mend, Severity
from graphcheck.validate.device_result import DeviceResult
from graphcheck.validate.ties.types import PoolTies, RuleEffect, TiesReport
from graphcheck.validate.types import Divergence, Stage, StaleOutput, Verdict, WrongInstruction

__all__ = ["REPORTS", "ROOT", "VERDICTS"]

ROOT = Path(__file__).parent
_MODEL = str(ROOT / "sources" / "model.py")
_LIBRARY = "/usr/lib/python3/site-packages/torchvision/models/resnet.py"
_VERSIONS = {
    "graphcheck": "0.1.0",
    "torch": "2.14.1",
    "executorch": "1.5.1",
    "opset": "executorch 1.5.1 (libexecutorch_kernels_optimized.so)",
}

_POOL = Finding(
    code="GC301",
    severity=Severity.ERROR,
    subject="aten.max_pool2d_with_indices_backward",
    message="adds to a gradient that it never clears",
    source=Source(
        module="pool1",
        module_type="MaxPool2d",
        file=_MODEL,
        line=17,
        code="x = self.pool1(torch.relu(self.conv1(x)))",
        function="forward",
        constructed_file=_MODEL,
        constructed_line=11,
    ),
    module="pool1, pool2",
    modules=("pool1", "pool2"),
    count=2,
    backward=True,
    evidence=(
        "GCA-2026-0001: the probe ran on this runtime, relative gradient error 3.1e+04",
        "affects executorch >=0.6.0,<=1.5.1",
        "a small network: losses 2.3, 12211.5",
        "one program run twice gives another gradient",
    ),
    mends=(
        Mend(
            "rewrite",
            "max_pool2d_backward",
            "scatter the gradient into zeros",
            exact=True,
            command="graphcheck export model.py",
        ),
        Mend("swap", "MaxPool2d", "view and amax; splits ties", exact=False),
    ),
    gradients=("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"),
    advisory="GCA-2026-0001",
    nodes=("max_pool_backward", "max_pool_backward_1"),
)
_NORM = Finding(
    code="GC103",
    severity=Severity.ERROR,
    subject="aten._native_batch_norm_legit_functional",
    message="is not core ATen, so lowering refuses it",
    source=Source(module="bn1", module_type="BatchNorm2d", file=_LIBRARY, line=280),
    module="bn1, layer*.*.bn*",
    modules=("bn1", "layer1.0.bn1", "layer1.0.bn2"),
    count=20,
    gradients=("conv1.weight",),
)
_DOUBLE = Finding(
    code="GC403",
    severity=Severity.WARNING,
    subject="loss",
    message="is float64: 100% of it, and\nmost devices are slow at that",
    source=Source(module="forward", file=_MODEL, line=20),
    module="forward",
)
_TIED = Finding(
    code="GC504",
    severity=Severity.NOTE,
    subject="tied weights",
    message="embed.weight is also head.weight",
)
_HIDDEN = Finding(
    code="GC601",
    severity=Severity.NOTE,
    subject="MaxPool2d",
    message="could be an average pool",
    source=Source(module="pool1", file=_MODEL, line=17),
    module="pool1",
)

REPORTS = {
    "findings": Report(
        target="model.py",
        findings=(_TIED, _DOUBLE, _NORM, _POOL),
        suppressed=(
            Suppressed(_HIDDEN, "comment at model.py:11", "kernel is replaced on our devices"),
            Suppressed(_HIDDEN, "ignore GC6"),
        ),
        unused_suppressions=(UnusedSuppression(_MODEL, 12, "# graphcheck: ignore[GC101]"),),
        not_checked=(NotChecked("GCA-2026-0002 (dropout)", "the probe did not end in 60 s"),),
        guesses=("loss: cross_entropy, since forward returns float32[2,10]",),
        versions=_VERSIONS,
        ops=64,
        backward_ops=40,
        parameters=8,
        next_command="graphcheck validate model.py",
    ),
    "clean": Report(
        target="model.py",
        versions=_VERSIONS,
        ops=1,
        backward_ops=0,
        parameters=2,
    ),
    "failed": Report(
        target="model.py",
        findings=(
            Finding(
                code="GC003",
                severity=Severity.ERROR,
                subject="loss is not a scalar",
                message="forward returns float32[2,10]",
                module="forward",
                evidence=("give the name of a loss with --loss, for instance cross_entropy",),
            ),
        ),
        not_checked=(NotChecked("every op of the model", "there is no joint graph to look at"),),
        versions=_VERSIONS,
        failed=True,
    ),
}

_LADDER = (
    Stage("load", "pass", seconds=0.4),
    Stage("export", "pass", "non-strict", 3.25),
    Stage("build the runner", "pass", "from the cache"),
    Stage("train", "fail", "the loss is not finite from step 4 on", 1.0),
    Stage("shadow execution", "not run"),
)

_WRONG = (
    WrongInstruction(
        instruction=6,
        op="aten::relu.out",
        module="act",
        source="model.py:17",
        error=float("nan"),
        index=(0, 3, 1, 2),
        observed=float("nan"),
        expected=0.0,
        count=12,
        size=540,
        reproducer="wrong/00006-relu-out",
    ),
    WrongInstruction(
        instruction=41,
        op="aten::sub.out",
        step=1,
        detail="writes beside its output",
    ),
)

VERDICTS = {
    "match": Verdict(
        target="model.py",
        verdict="match",
        reason="20 steps, every gradient at every step agrees with eager",
        stages=_LADDER[:3],
        steps=20,
        losses=tuple(2.3 * 0.9**step for step in range(20)),
        eager_losses=tuple(2.3 * 0.9**step for step in range(20)),
        worst_gradient_errors={"conv1.weight": 3.1e-7, "conv1.bias": 0.0},
        gradient_tolerances={"conv1.weight": 1.2e-5, "conv1.bias": 2e-6},
        stale_checked=True,
        shadow_checked=True,
        overhead={
            "bare step s": 0.0123,
            "recorded step s": 0.0151,
            "detector and start s": 0.8,
            "eager side s": 2.5,
        },
        versions=_VERSIONS,
        optimizer="sgd, learning rate 0.05",
    ),
    "diverged": Verdict(
        target="model.py",
        verdict="diverged",
        reason=f"the runtime leaves eager at step 0, first at pool2 ({_MODEL}:18)",
        stages=_LADDER,
        steps=8,
        losses=(2.30954, 12211.5, 1.32747e24, float("inf"), *[float("nan")] * 4),
        eager_losses=(2.30954, 2.2, 2.1, 2.0, 1.9, 1.8, 1.7, 1.6),
        first_free=Divergence(1, "loss", 12211.5, 2.2, 5549.7, 1e-4),
        first_locked=Divergence(0, "conv1.weight", -31.5, 0.02, float("nan"), 1e-4),
        worst_gradient_errors={f"p{i}.weight": 10.0**-i for i in range(7)}
        | {"conv1.weight": float("nan")},
        stale=(
            StaleOutput(
                41,
                "aten::max_pool2d_with_indices_backward.grad_input",
                "pool2",
                f"{_MODEL}:18",
            ),
            StaleOutput(45, "aten::convolution_backward.out", "conv2", f"{_MODEL}:18", 41),
            StaleOutput(52, "aten::max_pool2d_with_indices_backward.grad_input", "pool1"),
        ),
        stale_checked=True,
        first_wrong=WrongInstruction(
            41,
            "aten::max_pool2d_with_indices_backward.grad_input",
            "pool2",
            f"{_MODEL}:18",
            step=0,
            error=float("inf"),
            tolerance=1e-4,
            detail="the gradient holds what was there before",
        ),
        shadow_checked=True,
        notes=("random ops were compared by their mask",),
        versions=_VERSIONS,
        optimizer="sgd, learning rate 0.05",
    ),
    "devices": Verdict(
        target="model.py",
        verdict="match",
        reason="all agree, on host and qemu-aarch64; NOT RUN on ssh:pi@board: cannot be reached",
        stages=_LADDER[:3],
        steps=2,
        losses=(2.3, 2.2),
        eager_losses=(2.3, 2.2),
        stale_checked=True,
        devices=(
            DeviceResult(
                "host",
                "x86_64",
                "match",
                "all agree",
                steps=2,
                losses=(2.3, 2.2),
                step_seconds=0.0123,
                step_low=0.0121,
                step_high=0.0134,
                start_bytes=4 << 20,
                peak_bytes=25 << 20,
                arena_bytes=6 << 20,
            ),
            DeviceResult(
                "qemu-aarch64",
                "aarch64",
                "match",
                "all agree",
                steps=2,
                losses=(2.3, 2.2),
                step_seconds=1.2,
                step_low=1.1,
                step_high=1.3,
                start_bytes=19 << 20,
                peak_bytes=44 << 20,
                arena_bytes=6 << 20,
                gap=2.2e-7,
                resumed=True,
            ),
            DeviceResult(
                "ssh:pi@board",
                "",
                "not run",
                "ssh:pi@board cannot be reached: no route to host",
                lost=True,
                failed_at="load",
            ),
        ),
        versions=_VERSIONS,
        optimizer="adamw, learning rate 0.001, weight decay 0.01",
    ),
    "shadow": Verdict(
        target="model.py",
        verdict="diverged",
        reason="instruction 6 (aten::relu.out) computes something else than eager",
        stages=(*_LADDER[:3], Stage("shadow", "fail", "wrong from the same inputs: 6 relu", 1.5)),
        steps=1,
        losses=(2.3,),
        eager_losses=(2.3,),
        stale_checked=True,
        shadow_checked=True,
        shadow_instructions=80,
        first_wrong=_WRONG[0],
        wrong=_WRONG,
        ties=TiesReport(
            pools=(
                PoolTies("pool1", "float16", 4096, 0.08, 0.001, 0.002, 0.004, 0.05, "conv.weight"),
                PoolTies("pool2", "float32", 1, 0.0, 0.0, 0.0, 0.0),
            ),
            effects=(
                RuleEffect("float16", 2.1e-3, 2e-2, "conv.weight"),
                RuleEffect("bfloat16", why_not="eager cannot train it: RuntimeError: no kernel"),
            ),
        ),
        notes=(
            "RULE CHANGE: instruction 9 (aten::x.out) decides 3 ties in another way than eager",
        ),
        versions=_VERSIONS,
    ),
    "not-run": Verdict(
        target="model.py",
        verdict="not run",
        reason="the runtime has no kernel aten::avg_pool2d_backward.grad_input (0x14)",
        stages=(Stage("load", "pass", seconds=0.4), Stage("train", "fail", "0x14")),
        versions=_VERSIONS,
    ),
}
