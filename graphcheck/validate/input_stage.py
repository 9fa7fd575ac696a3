"""The stage `inputs`: batches of other sizes agree, and what does not fit is refused.

A program with a dynamic batch is run on 1 sample, on the most it plans for, and between; one more
must be refused, and so must inputs of another shape or dtype that take as many bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from graphcheck.errors import GraphcheckError
from graphcheck.graph.pte import PteMethod, read_pte
from graphcheck.runtime.request import tensor_inputs
from graphcheck.runtime.types import ArrayInput, Trace, TrainRequest
from graphcheck.validate.batches import Batch, array_input
from graphcheck.validate.compare import compare
from graphcheck.validate.oracle import Oracle
from graphcheck.validate.reason import told_divergence
from graphcheck.validate.types import Stage, Verdict
from graphcheck.worker import progress
from graphcheck.workload.types import Workload

__all__ = ["with_inputs"]

_SAME_SIZE = {
    "float32": "int32",
    "float64": "int64",
    "int64": "float64",
    "float16": "int16",
    "bfloat16": "float16",
    "int32": "float32",
    "bool": "uint8",
    "uint8": "int8",
}
Train = Callable[[TrainRequest], Trace]


def with_inputs(
    verdict: Verdict, request: TrainRequest, workload: Workload, train: Train
) -> Verdict:
    """The verdict with this stage; a batch size that does not agree makes it diverged."""
    progress("looking at other inputs")
    stage = _Inputs(replace(request, steps=1, detect_stale=False), workload, train)
    stage.wrong_inputs()
    if workload.dynamic_shapes:
        stage.sizes(compared=verdict.free_compared)
    detail = "; ".join(stage.told)
    if stage.faults:
        told = "; ".join(stage.faults)
        verdict = replace(verdict, verdict="diverged", reason=told)
        entry = Stage("inputs", "fail", told)
    else:
        entry = Stage("inputs", "pass" if stage.told else "not run", detail or "there is no input")
    notes = tuple(dict.fromkeys([*verdict.notes, *stage.notes]))
    return replace(verdict, stages=(*verdict.stages, entry), notes=notes)


class _Inputs:
    def __init__(self, request: TrainRequest, workload: Workload, train: Train) -> None:
        self.request = request
        self.workload = workload
        self.train = train
        self.method: PteMethod = read_pte(request.program).method(request.method)
        self.faults: list[str] = []
        self.told: list[str] = []
        self.notes: list[str] = []

    def wrong_inputs(self) -> None:
        """Another shape and another dtype of as many bytes, in the first input there is."""
        arrays = self.request.batches[0]
        refused = []
        for position, array in enumerate(arrays):
            for what, wrong in _wrong(array):
                batch = (*arrays[:position], wrong, *arrays[position + 1 :])
                place = self.method.values[self.method.inputs[tensor_inputs(self.method)[position]]]
                given = f"{wrong.dtype}{list(wrong.shape)}"
                wanted = f"{array.dtype}{list(array.shape)}"
                does = self._answer(batch)
                told = f"the runtime {does} input {position} as {given} in place of {wanted}"
                if does == "refuses":
                    refused.append(what)
                elif place.dynamism == "static":
                    self.faults.append(told)
                else:
                    self.notes.append(
                        f"{told}: of a dynamic shape it compares the number of elements only, so "
                        "the app has to look at shapes itself"
                    )
            if refused:
                break
        if refused:
            self.told.append(f"{' and '.join(dict.fromkeys(refused))} refused")

    def sizes(self, *, compared: bool) -> None:
        """One step on 1 sample, the most, and between; one more than that is refused."""
        most = self._most()
        if most is None:
            self.notes.append("other batch sizes: NOT CHECKED, no input has a bound in dim 0")
            return
        if compared:
            for size in sorted({1, (1 + most) // 2, most}):
                self._one_size(size)
        else:
            self.notes.append("other batch sizes: NOT CHECKED, the model draws random numbers")
        does = self._answer(self._arrays(self._batch(most + 1)))
        if does == "refuses":
            self.told.append(f"{most + 1} refused")
        else:
            self.faults.append(
                f"the runtime {does} a batch of {most + 1}, more than the {most} it has memory for"
            )

    def _one_size(self, size: int) -> None:
        batch = self._batch(size)
        request = replace(self.request, batches=(self._arrays(batch),))
        oracle = Oracle(
            self.workload,
            learning_rate=request.learning_rate,
            optimizer=request.optimizer,
            settings=request.settings,
            batches=(batch,),
        )
        try:
            oracle.step(0, keep_state=True)
        except (RuntimeError, ValueError, GraphcheckError) as error:
            line = str(error).splitlines()[0]
            self.notes.append(f"a batch of {size}: NOT CHECKED, eager PyTorch refuses it: {line}")
            return
        trace = self.train(request)
        if trace.failure is not None or not trace.steps:
            why = trace.failure.message if trace.failure else "it gave no step"
            self.faults.append(f"a batch of {size} does not run: {why}")
            return
        found = compare(trace, oracle, None, prefix=self.workload.prefix)
        if found.first_locked is not None:
            told = found.told or told_divergence(found.first_locked)
            self.faults.append(f"with a batch of {size}, {told}")
        else:
            self.told.append(f"a batch of {size} agrees")

    def _most(self) -> int | None:
        """The largest batch that the program plans for."""
        values = (self.method.values[i] for i in self.method.inputs)
        bounds = [v.shape[0] for v in values if v.dynamism == "bound" and v.shape]
        return min(bounds, default=None)

    def _batch(self, size: int) -> Batch:
        from torch.utils._pytree import tree_flatten, tree_unflatten

        leaves, form = tree_flatten((self.workload.inputs, self.workload.kwargs))
        places = iter(tensor_inputs(self.method))
        resized = [self._resized(leaf, places, size) for leaf in leaves]
        arguments: Batch = tree_unflatten(resized, form)
        return arguments

    def _resized(self, leaf: Any, places: Iterator[int], size: int) -> Any:
        import torch

        if not isinstance(leaf, torch.Tensor):
            return leaf
        value = self.method.values[self.method.inputs[next(places)]]
        if value.dynamism != "bound" or leaf.dim() == 0:
            return leaf
        rows = torch.arange(size) % leaf.shape[0]
        return leaf[rows]

    def _arrays(self, batch: Batch) -> tuple[ArrayInput, ...]:
        import torch
        from torch.utils._pytree import tree_leaves

        return tuple(array_input(x) for x in tree_leaves(batch) if isinstance(x, torch.Tensor))

    def _answer(self, arrays: tuple[ArrayInput, ...]) -> str:
        """What the runtime does with these inputs: `refuses`, `takes`, `crashes on`, ..."""
        trace = self.train(replace(self.request, batches=(arrays,), checked=False, record=False))
        kind = trace.failure.kind if trace.failure is not None else ""
        words = {"": "takes", "refused": "refuses", "crash": "crashes on", "hang": "hangs on"}
        return words.get(kind, "gives no answer to")


def _wrong(array: ArrayInput) -> Iterator[tuple[str, ArrayInput]]:
    """Inputs of as many bytes that are not the right one."""
    sizes = array.shape
    swapped = (*sizes[:-2], *sizes[:-3:-1]) if len(sizes) > 1 else sizes
    if swapped == sizes:
        swapped = sizes[::-1]
    if swapped != sizes and array.data:
        yield "another shape", replace(array, shape=swapped, dim_order=())
    if array.dtype in _SAME_SIZE and array.data:
        yield "another dtype", replace(array, dtype=_SAME_SIZE[array.dtype])
