"""Runs rewrites in the ExecuTorch runtime and compares them with eager ATen.

`check` calls one ATen op directly, `check_training` trains small modules that reach the op. All
cases of one call go into one program with a method per dtype, since lowering costs the time; the
program runs in another process (a crash is a failure that names the cases). Every method runs
three times, with two data sets in turn, so that a result that depends on what the memory held
before is seen.

Tolerance: eager float32 is compared with eager float64 on the same inputs; the runtime may be four
times as far off as that, plus eight units in the last place of the largest value of the result.
float64 results get the same bound times the ratio of the two machine epsilons.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from lowered import RuntimeFailure, run_methods

from graphcheck.graph.trace import trace_joint
from graphcheck.rewrite.apply import Applied, apply, qualified_name
from graphcheck.rewrite.interface import Rewrite, all_rewrites, rewrites_for

__all__ = [
    "Case",
    "RuntimeFailure",
    "Training",
    "check",
    "check_training",
    "generator",
    "resolve",
    "run_methods",
]

BOTH = (torch.float32, torch.float64)
_EPS = torch.finfo(torch.float32).eps
_RATIO = torch.finfo(torch.float64).eps / _EPS


@dataclass
class Case:
    """One call of an op. `make` gives its positional arguments from a random generator: float64
    tensors are cast to the dtype under test, other tensors stay; what is no tensor must not vary.
    """

    label: str
    make: Callable[[torch.Generator], Sequence[Any]]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Training:
    """One training graph: loss = sum of the outputs of `op(pre(x), *extra)`, weighted at random
    with both signs. `pre` is the trainable layer before the op (None: a linear layer on the last
    dim), `op` a factory of a module or of a function."""

    label: str
    op: Callable[[], Any]
    x: Sequence[int] | Callable[[torch.Generator], torch.Tensor]
    pre: Callable[[], torch.nn.Module] | None = None
    extra: Callable[[torch.Generator], Sequence[torch.Tensor]] | None = None


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def resolve(name: str) -> Any:
    """The overload called `aten.add.Tensor`."""
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def check(
    op: str,
    cases: Sequence[Case],
    *,
    rewrite: str = "",
    dtypes: Sequence[torch.dtype] = BOTH,
    indices: bool = True,
    also: Sequence[str] = (),
) -> list[Applied]:
    """Run an op's rewrite (`rewrite` by name, or the preferred one) on all cases.

    `indices` is whether integer results must be equal. `also` names rewrites for ops that the
    rewrite brings in. Returns what was applied. Fails if a case is not rewritten.
    """
    choose = _chooser([_preferred(op, rewrite), *(_named(name) for name in also)])
    applied: list[Applied] = []

    def build(chosen: Sequence[Case], dtype: torch.dtype) -> _Job:
        data = [[_cast(case.make(generator(seed)), dtype) for case in chosen] for seed in (1, 2)]
        module = _Calls(resolve(op), data[0], [case.kwargs for case in chosen])
        inputs = [_tensors(arguments) for arguments in data]
        with torch.no_grad():
            program = torch.export.export(module, inputs[0], strict=False)
        program, done = apply(program.run_decompositions(), choose)
        rewritten = sum(one.op == op and one.applied for one in done)
        assert rewritten >= len(chosen), f"{op}: {rewritten} nodes for {len(chosen)} cases: {done}"
        applied.extend(done)
        return _Job(program, inputs, module)

    for dtype, runs, job in _run(build, cases, dtypes):
        for run, got in enumerate(runs):
            values = job.inputs[run % 2]
            single = job.module.cases(*_cast(values, torch.float32))
            double = job.module.cases(*_cast(_cast(values, torch.float32), torch.float64))
            eager = single if dtype == torch.float32 else job.module.cases(*values)
            got = list(got)
            some = _some(cases, dtype)
            for case, low, high, want in zip(some, single, double, eager, strict=True):
                part = [got.pop(0) for _ in want]
                bounds = _bounds(low, high, 1.0 if dtype == torch.float32 else _RATIO)
                _compare(f"{op} {case.label} {dtype} run {run}", part, want, bounds, indices)
            assert not got
    return applied


def check_training(
    cases: Sequence[Training],
    rewrites: Sequence[str],
    *,
    dtypes: Sequence[torch.dtype] = BOTH,
    every: bool = True,
) -> list[Applied]:
    """Train with the named rewrites, compare loss and every gradient with eager.

    With `every`, each named rewrite must have been applied somewhere.
    """
    chosen = [_named(name) for name in rewrites]
    choose = _chooser(chosen, "joint")
    applied: list[Applied] = []

    def build(some: Sequence[Training], dtype: torch.dtype) -> _Job:
        data = [[_inputs(case, seed) for case in some] for seed in (1, 2)]
        torch.manual_seed(3)
        # float32 and float64 start from the same numbers.
        module = _Trains(some, data[0]).float().to(dtype)
        inputs = [_tensors(_cast(values, dtype)) for values in data]
        exported = torch.export.export(module, inputs[0], strict=False)
        exported, early = apply(exported, _chooser(chosen, "forward"), stage="forward")
        joint, done = apply(trace_joint(exported, strict=False).joint, choose)
        # A rewrite may decline a node that the runtime can do.
        applied.extend([*early, *done])
        return _Job(joint, inputs, module)

    for dtype, runs, job in _run(build, cases, dtypes):
        for run, got in enumerate(runs):
            values = job.inputs[run % 2]
            single = job.module.gradients(torch.float32, *_cast(values, torch.float32))
            rounded = _cast(values, torch.float32)
            double = job.module.gradients(torch.float64, *_cast(rounded, torch.float64))
            eager = single if dtype == torch.float32 else job.module.gradients(dtype, *values)
            # The outputs are the sum of losses, the losses, the gradients, the parameters.
            some = _some(cases, dtype)
            losses = list(got[1 : 1 + len(some)])
            gradients = list(got[1 + len(some) :])
            for case, low, high, want in zip(some, single, double, eager, strict=True):
                part = [losses.pop(0), *(gradients.pop(0) for _ in want[1:])]
                factor = 1.0 if dtype == torch.float32 else _RATIO
                bounds = _bounds(low, high, factor, shared=True)
                _compare(f"{case.label} {dtype} run {run}", part, want, bounds, True)
    if every:
        used = {one.rewrite.name for one in applied if one.applied}
        missed = {one.name for one in chosen} - used
        assert not missed, f"never applied: {sorted(missed)}"
    return applied


@dataclass
class _Job:
    program: Any
    inputs: list[tuple[torch.Tensor, ...]]
    module: Any


def _some(cases: Sequence[Any], dtype: torch.dtype) -> Sequence[Any]:
    """float64 takes every other case of a long list: the graphs are the same."""
    return cases[::2] if dtype == torch.float64 and len(cases) > 6 else cases


def _run(
    build: Callable[[Sequence[Any], torch.dtype], _Job],
    cases: Sequence[Any],
    dtypes: Sequence[torch.dtype],
) -> Iterator[tuple[torch.dtype, list[list[torch.Tensor]], _Job]]:
    """Build and run all cases; after a failure one by one, to tell which case it was."""
    jobs = {
        str(dtype).removeprefix("torch."): build(_some(cases, dtype), dtype) for dtype in dtypes
    }
    try:
        outcome = run_methods({name: (job.program, job.inputs) for name, job in jobs.items()})
    except RuntimeFailure as error:
        for dtype in dtypes:
            for case in _some(cases, dtype) if len(cases) > 1 else ():
                job = build([case], dtype)
                try:
                    run_methods({"forward": (job.program, job.inputs)})
                except RuntimeFailure as narrow:
                    pytest.fail(f"{case.label} {dtype}: {narrow}")
        pytest.fail(f"{[case.label for case in cases]}: {error}")
    for dtype, (name, job) in zip(dtypes, jobs.items(), strict=True):
        yield dtype, outcome[name], job


class _Calls(torch.nn.Module):
    """Calls an op once per case, with fixed values in the places that are not tensors."""

    def __init__(self, op: Any, arguments: Sequence[Any], kwargs: Sequence[Any]) -> None:
        super().__init__()
        self.op = op
        self.arguments = list(arguments)
        self.kwargs = list(kwargs)

    def cases(self, *tensors: torch.Tensor) -> list[list[torch.Tensor]]:
        left = list(tensors)
        results = []
        for arguments, kwargs in zip(self.arguments, self.kwargs, strict=True):
            result = self.op(*(_refill(value, left) for value in arguments), **kwargs)
            many = result if isinstance(result, (list, tuple)) else (result,)
            results.append([one for one in many if one is not None])
        return results

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(one for result in self.cases(*tensors) for one in result)


class _Train(torch.nn.Module):
    """One training graph."""

    def __init__(self, case: Training, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        x = inputs[0]
        # Without bias: its gradient is a sum over one dim, which the stock kernel takes in float.
        self.pre = (
            torch.nn.Linear(x.shape[-1], x.shape[-1], bias=False)
            if case.pre is None
            else case.pre()
        )
        self.op = case.op()
        with torch.no_grad():
            outputs = copy.deepcopy(self)._outputs(*_cast(inputs, torch.float32))
        for index, output in enumerate(outputs):
            weight = torch.randn(output.shape, generator=generator(index))
            self.register_buffer(f"weight{index}", weight)

    def _outputs(self, x: torch.Tensor, *extra: torch.Tensor) -> list[torch.Tensor]:
        result = self.op(self.pre(x), *extra)
        results = result if isinstance(result, (list, tuple)) else [result]
        return [one for one in results if one.is_floating_point()]

    def forward(self, x: torch.Tensor, *extra: torch.Tensor) -> torch.Tensor:
        terms = [
            (output * getattr(self, f"weight{index}")).sum()
            for index, output in enumerate(self._outputs(x, *extra))
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


class _Trains(torch.nn.Module):
    """Several training graphs side by side, each with parameters of its own."""

    def __init__(self, cases: Sequence[Training], inputs: Sequence[Sequence[Any]]) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(
            _Train(case, values) for case, values in zip(cases, inputs, strict=True)
        )
        self.counts = [len(values) for values in inputs]

    def losses(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        left = list(tensors)
        return [
            part(*(left.pop(0) for _ in range(count)))
            for part, count in zip(self.parts, self.counts, strict=True)
        ]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        losses = self.losses(*tensors)
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        return (total, *(loss.detach() for loss in losses))

    def gradients(self, dtype: torch.dtype, *tensors: torch.Tensor) -> list[list[torch.Tensor]]:
        """Loss and gradients of each graph, in eager."""
        module = copy.deepcopy(self).to(dtype)
        results = []
        for part, loss in zip(module.parts, module.losses(*tensors), strict=True):
            parameters = [p for p in part.parameters() if p.requires_grad]
            results.append([loss.detach(), *torch.autograd.grad(loss, parameters)])
        return results


def _inputs(case: Training, seed: int) -> tuple[torch.Tensor, ...]:
    random = generator(seed)
    x = (
        case.x(random)
        if callable(case.x)
        else torch.randn(tuple(case.x), generator=random, dtype=torch.float64)
    )
    return (x, *(case.extra(random) if case.extra else ()))


def _cast(values: Any, dtype: torch.dtype) -> Any:
    if isinstance(values, torch.Tensor):
        return values.to(dtype) if values.is_floating_point() else values
    if isinstance(values, (list, tuple)):
        return tuple(_cast(value, dtype) for value in values)
    return values


def _tensors(values: Any) -> tuple[torch.Tensor, ...]:
    if isinstance(values, torch.Tensor):
        return (values,)
    if isinstance(values, (list, tuple)):
        return tuple(tensor for value in values for tensor in _tensors(value))
    return ()


def _refill(value: Any, left: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return left.pop(0)
    if isinstance(value, (list, tuple)):
        return [_refill(item, left) for item in value]
    return value


def _bounds(single: Any, double: Any, factor: float, shared: bool = False) -> list[float]:
    """How far each result may be off; `shared` ties the floor to the largest of all results."""
    floats = [(a, b) for a, b in zip(single, double, strict=True)]
    top = max((_largest(b) for _, b in floats), default=0.0)
    bounds = []
    for low, high in floats:
        if not low.is_floating_point():
            bounds.append(0.0)
            continue
        finite = torch.isfinite(high) & torch.isfinite(low)
        error = (low.double() - high.double())[finite].abs()
        spread = float(error.max()) if error.numel() else 0.0
        largest = top if shared else _largest(high)
        bounds.append((4 * spread + 8 * _EPS * largest) * factor)
    return bounds


def _largest(value: torch.Tensor) -> float:
    if not value.is_floating_point():
        return 0.0
    finite = value[torch.isfinite(value)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _compare(
    where: str, got: Sequence[Any], eager: Sequence[Any], bounds: Sequence[float], indices: bool
) -> None:
    assert len(got) == len(eager), f"{where}: {len(got)} results, eager has {len(eager)}"
    for index, (one, other, bound) in enumerate(zip(got, eager, bounds, strict=True)):
        assert one.shape == other.shape, f"{where}: result {index} {one.shape} != {other.shape}"
        assert one.dtype == other.dtype, f"{where}: result {index} {one.dtype} != {other.dtype}"
        if not one.is_floating_point():
            assert not indices or torch.equal(one, other), f"{where}: result {index} differs"
            continue
        odd = ~torch.isfinite(other)
        same = torch.equal(torch.nan_to_num(one[odd]), torch.nan_to_num(other[odd]))
        assert same, f"{where}: result {index} has other infinities"
        same = torch.equal(one[odd].isnan(), other[odd].isnan())
        assert same, f"{where}: result {index} has other NaNs"
        error = (one[~odd].double() - other[~odd].double()).abs()
        worst = float(error.max()) if error.numel() else 0.0
        # Written so that NaN fails.
        assert worst <= bound, f"{where}: result {index} is off by {worst:.3g}, allowed {bound:.3g}"


def _named(name: str) -> Rewrite:
    return next(one for one in all_rewrites() if one.name == name)


def _preferred(op: str, name: str) -> Rewrite:
    found = [one for one in rewrites_for(op, asked=bool(name)) if name in ("", one.name)]
    assert found, f"no rewrite {name} of {op}"
    return found[0]


def _chooser(chosen: Sequence[Rewrite], stage: str = "") -> Callable[[Any], Rewrite | None]:
    """The first of the rewrites that fits a node (and the stage, if one is given)."""

    def choose(node: Any) -> Rewrite | None:
        name = qualified_name(node.target)
        return next((one for one in chosen if one.op == name and stage in ("", one.stage)), None)

    return choose
