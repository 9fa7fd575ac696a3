"""`validate --ties`: how often max pools meet ties, and what another rule does to the gradients.

Eager PyTorch runs one step of the model in each floating dtype. Which windows tie is read off the
inputs of its max pools; which ties matter is told by what made the tied entries (see
`graphcheck.validate.ties.types.PoolTies`). The effect of a rule is that of running the same step
with ties split equally. After arXiv 2401.02736.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from graphcheck.validate.noise import op_name, unit
from graphcheck.validate.oracle import EagerStep, Oracle
from graphcheck.validate.ties.rules import FORWARD, named_arguments, rule_mode
from graphcheck.validate.ties.types import PoolTies, RuleEffect, TiesReport
from graphcheck.validate.ties.windows import Windows
from graphcheck.workload.types import Workload

__all__ = ["DTYPES", "measure_ties"]

DTYPES = ("float32", "float16", "bfloat16")
_BACKWARD = "aten::max_pool2d_with_indices_backward"
_CONVOLUTION = "aten::convolution"
_ZEROED = ("relu", "hardtanh", "clamp", "clamp_min", "threshold", "relu6")
_KEEPS = (
    *_ZEROED,
    "native_batch_norm",
    "_native_batch_norm_legit",
    "clone",
    "detach",
    "contiguous",
)
_TERMS = 4.0
_LAST_PLACES = 8.0


@dataclass
class _Made:
    """What made a tensor: a convolution, then ops that keep each entry in its place."""

    given: dict[str, Any]
    convolved: Any
    zeroed: bool = False
    direct: bool = True
    """Whether nothing but a clamp lies between, so that its bounds are those of the convolution."""


@dataclass
class _Pool:
    name: str
    given: dict[str, Any]
    shape: tuple[int, ...]
    made: _Made | None
    indices: Any
    gradient: Any = None


@dataclass
class _Seen:
    """What a step showed; `held` keeps tensors alive, so that no address is used twice."""

    pools: list[_Pool] = field(default_factory=list)
    made: dict[int, _Made] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)


def measure_ties(
    workload: Workload, dtypes: Sequence[str] = DTYPES, progress: Callable[[str], None] = print
) -> TiesReport:
    """Ties of all max pools of a model on its first batch, and their effect, by dtype."""
    pools: list[PoolTies] = []
    effects: list[RuleEffect] = []
    for dtype in dtypes:
        progress(f"looking for ties in {dtype}")
        try:
            found, effect = _in_dtype(workload, dtype)
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            why = f"eager cannot train it: {type(error).__name__}: {first}"
            effects.append(RuleEffect(dtype, why_not=why))
            continue
        pools += found
        effects.append(effect)
        if not found:
            break  # no max pool in one dtype, none in another
    return TiesReport(tuple(pools), tuple(effects))


def _in_dtype(workload: Workload, dtype: str) -> tuple[list[PoolTies], RuleEffect]:
    import torch

    cast = _cast(workload, getattr(torch, dtype))
    oracle = Oracle(cast, learning_rate=0.0)
    seen = _Seen()
    with _named(oracle.module, cast.prefix) as current:
        first = oracle.step(0, mode=_watch(seen, current), keep_state=True)
    if not seen.pools:
        return [], RuleEffect(dtype, why_not="the model has no max pool")
    index = oracle.step(0, mode=rule_mode(split=False), keep_state=True)
    equal = oracle.step(0, mode=rule_mode(split=True), keep_state=True)
    weights = {tensor.data_ptr(): name for name, tensor in oracle.parameters.items()}
    found = [_measured(pool, dtype, first, weights, cast.prefix) for pool in seen.pools]
    return found, _effect(dtype, index, equal, cast.prefix)


def _cast(workload: Workload, dtype: Any) -> Workload:
    """The workload with its float32 tensors in another dtype."""
    import torch
    from torch.utils._pytree import tree_map_only

    def to(tensor: Any) -> Any:
        return tensor.to(dtype) if tensor.dtype == torch.float32 else tensor

    if dtype == torch.float32:
        return workload
    module = copy.deepcopy(workload.module)
    for holder in module.modules():
        for store in (holder._parameters, holder._buffers):
            for name, tensor in store.items():
                if tensor is not None and tensor.dtype == torch.float32:
                    moved = tensor.detach().to(dtype)
                    if isinstance(tensor, torch.nn.Parameter):
                        moved = torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
                    store[name] = moved
    inputs = tree_map_only(torch.Tensor, to, workload.inputs)
    kwargs = tree_map_only(torch.Tensor, to, workload.kwargs)
    return replace(workload, module=module, inputs=inputs, kwargs=kwargs, batches=())


@contextmanager
def _named(module: Any, prefix: str) -> Any:
    """A list whose last entry is the path of the module that runs."""
    stack = [""]
    handles = []
    for name, part in module.named_modules():
        told = name.removeprefix(prefix)

        def enter(_: Any, __: Any, told: str = told) -> None:
            stack.append(told)

        def leave(_: Any, __: Any, ___: Any) -> None:
            stack.pop()

        handles += [
            part.register_forward_pre_hook(enter),
            part.register_forward_hook(leave, always_call=True),
        ]
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


def _watch(seen: _Seen, current: Sequence[str]) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            name = func._schema.name
            main = result[0] if isinstance(result, (tuple, list)) and result else result
            if not isinstance(main, torch.Tensor):
                return result
            source = args[0] if args and isinstance(args[0], torch.Tensor) else None
            if name == _CONVOLUTION:
                given = named_arguments(func, args, kwargs or {})
                seen.held += [main, *args]
                seen.made[main.data_ptr()] = _Made(given, main.detach().clone())
            elif name == FORWARD:
                given = named_arguments(func, args, kwargs or {})
                given["self"] = given["self"].detach().clone()
                made = seen.made.get(source.data_ptr()) if source is not None else None
                where = current[-1] or f"pool {len(seen.pools)}"
                seen.held += [main, result[1], source]
                seen.pools.append(_Pool(where, given, tuple(main.shape), made, result[1]))
            elif name == _BACKWARD:
                given = named_arguments(func, args, kwargs or {})
                for pool in seen.pools:
                    if pool.indices.data_ptr() == given["indices"].data_ptr():
                        pool.gradient = given["grad_output"].detach().clone()
            elif source is not None and main.shape == source.shape:
                self._follow(op_name(func), source, main)
            return result

        def _follow(self, name: str, source: Any, main: Any) -> None:
            made = seen.made.get(source.data_ptr())
            if made is None:
                return
            if name not in _KEEPS:
                if main.data_ptr() == source.data_ptr():
                    del seen.made[source.data_ptr()]
                return
            zeroed = made.zeroed or name in _ZEROED
            direct = made.direct and "norm" not in name
            seen.held.append(main)
            seen.made[main.data_ptr()] = replace(made, zeroed=zeroed, direct=direct)

    return Watch()


def _measured(
    pool: _Pool, dtype: str, step: EagerStep, weights: Mapping[int, str], prefix: str
) -> PoolTies:
    import torch

    windows = Windows(pool.given["self"], pool.given, pool.shape)
    count = int(windows.tied.numel())
    gradient = pool.gradient if pool.gradient is not None else torch.zeros(pool.shape)
    flow = windows.per_window(gradient)
    dead = flow == 0
    if pool.made is not None and pool.made.zeroed:
        dead = dead | (windows.largest[:, 0] == 0)
    inert = windows.tied & dead
    alive = windows.tied & ~dead
    same = alive & _equal_patches(pool, windows)
    different = alive & ~same
    room = _room(pool, windows)
    close = windows.largest - windows.values <= room + room.amax(1, keepdim=True)
    near = ~windows.tied & ~dead & ((close & ~windows.tops & torch.isfinite(windows.values)).any(1))
    bound, bounded = _bound(pool, windows, flow, different, step, weights)

    def share(mask: Any) -> float:
        return int(mask.sum()) / count if count else 0.0

    return PoolTies(
        pool=pool.name,
        dtype=dtype,
        windows=count,
        inert=share(inert),
        same=share(same),
        different=share(different),
        near=share(near),
        bound=bound,
        bounded=bounded.removeprefix(prefix),
    )


def _equal_patches(pool: _Pool, windows: Windows) -> Any:
    """Windows whose largest entries were all convolved from equal patches, [P, L]."""
    import torch

    if pool.made is None:
        return torch.zeros_like(windows.tied)
    given = pool.made.given
    if given.get("transposed") or given["input"].dim() != 4:
        return torch.zeros_like(windows.tied)
    # What is equal in all inputs of the kernel has equal sums of several random weights.
    weight = given["weight"]
    generator = torch.Generator().manual_seed(7)
    probes = torch.rand(
        (int(given["groups"]) * 2, *weight.shape[1:]), generator=generator, dtype=torch.float64
    )
    marks = torch.nn.functional.conv2d(
        given["input"].detach().double(),
        probes,
        None,
        given["stride"],
        given["padding"],
        given["dilation"],
        given["groups"],
    )
    batch, channels = windows.source.shape[:2]
    groups = int(given["groups"])
    equal = torch.ones_like(windows.tied)
    for probe in range(2):
        # The marks of the group that each channel of the convolution belongs to.
        chosen = marks.reshape(batch, groups, 2, *marks.shape[2:])[:, :, probe]
        planes = chosen.repeat_interleave(channels // groups, 1).reshape(
            batch * channels, windows.plane
        )
        cells = windows.gathered(planes)
        low = torch.where(windows.tops, cells, torch.inf).amin(1)
        high = torch.where(windows.tops, cells, -torch.inf).amax(1)
        equal &= low == high
    return equal


def _room(pool: _Pool, windows: Windows) -> Any:
    """How far rounding may have moved each cell's value, [P, K, L]."""
    import torch

    source = pool.given["self"]
    u = unit(source.dtype)
    if pool.made is None or not pool.made.direct:
        room = source.double().abs() * (_LAST_PLACES * u)
    else:
        given = pool.made.given
        terms = torch.ops.aten.convolution.default(*[_absolute(given[name]) for name in given])
        float_unit = unit(torch.float32) if source.dtype != torch.float64 else u
        own = source.double().abs()
        room = terms * (_TERMS * float_unit) + own * u
    return windows.gathered(room.reshape(-1, windows.plane))


def _absolute(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        return value.detach().double().abs()
    return value


def _bound(
    pool: _Pool,
    windows: Windows,
    flow: Any,
    different: Any,
    step: EagerStep,
    weights: Mapping[int, str],
) -> tuple[float | None, str]:
    """How far any choice can move the gradient of the convolution's weight, and its name.

    A window's gradient may arrive at any of its largest entries, so each of them can be off by all
    of it; the weight's gradient is linear in that, with the inputs as factors.
    """
    import torch

    made = pool.made
    name = weights.get(made.given["weight"].data_ptr(), "") if made is not None else ""
    if made is None or not made.direct or not name or name not in step.gradients:
        return None, ""
    moved = windows.scattered(windows.tops * (flow.abs() * different).unsqueeze(1))
    given = made.given
    rest = [given[key] for key in ("stride", "padding", "dilation", "transposed")]
    _, weight, _ = torch.ops.aten.convolution_backward.default(
        moved.reshape(made.convolved.shape),
        _absolute(given["input"]),
        _absolute(given["weight"]),
        None,
        *rest,
        given["output_padding"],
        given["groups"],
        [False, True, False],
    )
    largest = float(abs(step.gradients[name]).max())
    return (float(weight.max()) / largest if largest else 0.0), name


def _effect(dtype: str, first: EagerStep, other: EagerStep, prefix: str) -> RuleEffect:
    """Variation of all gradients, and the parameter whose gradient varies most."""
    changed = total = 0.0
    worst, name = 0.0, ""
    gradients, others = first.doubles(), other.doubles()
    sizes = {n: float((g * g).sum()) for n, g in gradients.items()}
    floor = 1e-6 * sum(sizes.values())
    for parameter, gradient in gradients.items():
        off = float(((others[parameter] - gradient) ** 2).sum())
        changed, total = changed + off, total + sizes[parameter]
        # A gradient that is zero but for rounding is measured by all of them.
        scale = max(sizes[parameter], floor)
        share = (off / scale) ** 0.5 if scale else 0.0
        if not (share <= worst):
            worst, name = share, parameter.removeprefix(prefix)
    variation = (changed / total) ** 0.5 if total else 0.0
    return RuleEffect(dtype, variation, worst, name)
