"""Real batches to train on, in place of the example inputs: `FILE.npz` or `module:loader`."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphcheck.counted import counted
from graphcheck.errors import UsageError
from graphcheck.workload.data_values import check_values
from graphcheck.workload.targets.importing import arguments_hidden, on_path
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import running_user_code
from graphcheck.workload.with_loss import argument_names

__all__ = ["with_data"]

_LOADER = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)")
_UNNAMED = re.compile(r"arr_\d+")
Batch = tuple[tuple[Any, ...], dict[str, Any]]


def with_data(workload: Workload, data: str, count: int) -> Workload:
    """The workload with its first `count` batches of `data`, used in turn.

    An npz file holds one array for each argument of forward (the targets of a loss after them), by
    its name or in order, samples along dim 0; they are cut into batches of the example's size. A
    loader is an iterable of batches, or a function that returns one; a batch is a tensor, a tuple
    in the order of the arguments, or a dict by name. Raises UsageError for data that does not fit
    the model or that eager PyTorch cannot train on, ModelError for a loader that fails.
    """
    found = _LOADER.fullmatch(data)
    if data.endswith(".npz"):
        batches, notes = _from_file(workload, Path(data), count)
    elif found is not None:
        batches, notes = _from_loader(workload, found["module"], found["name"], data, count)
    else:
        raise UsageError(
            f"--data {data}: this is neither an .npz file nor module:loader.",
            "For instance --data digits.npz, or --data training.data:loader.",
        )
    names = [f"--data {data}: {name}" for name in _examples(workload)]
    check_values(workload, batches, names)
    # Example targets that were guessed give way to those of the data.
    kept = [told for told in workload.guesses if not told.startswith("No targets were given")]
    return replace(workload, batches=tuple(batches), guesses=(*kept, *notes))


def _examples(workload: Workload) -> dict[str, Any]:
    """The example's arguments by name, in the order of forward."""
    names = argument_names(workload.module, len(workload.inputs))
    return dict(zip(names, workload.inputs, strict=True)) | workload.kwargs


def _from_file(workload: Workload, path: Path, count: int) -> tuple[list[Batch], list[str]]:
    import numpy
    import torch

    examples = _examples(workload)
    for name, example in examples.items():
        if not isinstance(example, torch.Tensor) or example.dim() == 0:
            raise UsageError(
                f"--data {path}: argument {name} of forward is no batch of samples.",
                "Use --data module:loader, which gives whole batches.",
            )
    try:
        with numpy.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise UsageError(f"--data {path}: there is no such file.", "Check the path.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        # What numpy says of a file that is no array is advice to unpickle it.
        pickled = isinstance(error, ValueError) and "pickle" in str(error)
        why = "it is no archive of plain arrays" if pickled else str(error).rstrip(".")
        raise UsageError(
            f"--data {path} cannot be read: {why}.", "numpy.savez writes such a file."
        ) from None
    arrays = _by_name(arrays, examples, f"--data {path}")
    for name, array in arrays.items():
        _check(f"--data {path}: {name}", _tensor(array), examples[name], samples=True)
    sizes = {name: (len(arrays[name]), len(examples[name])) for name in examples}
    samples, batch = next(iter(sizes.values()))
    for name, (own, own_batch) in sizes.items():
        if own * batch != samples * own_batch:
            raise UsageError(
                f"--data {path}: {name} has {own} samples, {next(iter(sizes))} has {samples}.",
                "All arrays need the same samples along dim 0.",
            )
    if samples < batch:
        raise UsageError(
            f"--data {path} has {samples} samples, fewer than the {batch} of the example's batch.",
            f"Give at least {batch}, or smaller example inputs.",
        )
    batches = [
        _batch(
            workload,
            {
                name: _tensor(array[index * size : (index + 1) * size])
                for (name, array), (_, size) in zip(arrays.items(), sizes.values(), strict=True)
            },
        )
        for index in range(min(samples // batch, count))
    ]
    rest = samples % batch
    told = f"--data: the last {rest} of {samples} samples of {path} fill no batch and are left out."
    return batches, [told] if rest and samples // batch < count else []


def _from_loader(
    workload: Workload, module: str, name: str, data: str, count: int
) -> tuple[list[Batch], list[str]]:
    examples = _examples(workload)
    batches: list[Batch] = []
    notes: list[str] = []
    for index, given in enumerate(itertools.islice(_iterated(module, name, data), count)):
        where = f"--data {data}, batch {index}"
        values = _by_name(_arguments(given), examples, where)
        leaves = {key: _checked(where, key, values[key], examples[key]) for key in examples}
        if None in leaves.values() and batches and not workload.dynamic_shapes:
            notes.append(f"{where} is smaller than the others and is left out.")
            continue
        for key, value in values.items():
            for got, example in leaves[key] or _pairs(value, examples[key], f"{where}: {key}"):
                _check(f"{where}: {key}", got, example, dynamic=bool(workload.dynamic_shapes))
        batches.append(_batch(workload, {key: _tensors(values[key]) for key in examples}))
    if not batches:
        raise UsageError(
            f"--data {data} gives no batch.",
            "Let it give at least one; a generator that was read before is empty.",
        )
    return batches, notes


def _checked(where: str, key: str, value: Any, example: Any) -> list[tuple[Any, Any]] | None:
    """Pairs of leaves; None for a batch that is smaller in dim 0 and right otherwise."""
    pairs = _pairs(value, example, f"{where}: {key}")
    smaller = [
        got.dim() == wanted.dim() > 0
        and got.shape[0] < wanted.shape[0]
        and got.shape[1:] == wanted.shape[1:]
        for got, wanted in pairs
    ]
    return None if any(smaller) else pairs


def _pairs(value: Any, example: Any, where: str) -> list[tuple[Any, Any]]:
    import torch
    from torch.utils._pytree import tree_flatten

    got, form = tree_flatten(_tensors(value))
    wanted, wanted_form = tree_flatten(example)
    if form != wanted_form:
        raise UsageError(f"{where} is not built as the example is.", "Give the same structure.")
    pairs = []
    for one, other in zip(got, wanted, strict=True):
        if isinstance(other, torch.Tensor):
            if not isinstance(one, torch.Tensor):
                raise UsageError(
                    f"{where} is a {type(one).__name__}, the model takes a tensor.",
                    "Give batches that are built as the example inputs are.",
                )
            pairs.append((one, other))
        elif one != other:
            raise UsageError(
                f"{where} is {one!r}; the program is made for {other!r}, which is fixed in it.",
                "Give this value in every batch, or make it the example's.",
            )
    return pairs


def _iterated(module: str, name: str, data: str) -> Iterator[Any]:
    folder = os.getcwd()
    on_path(folder)
    with running_user_code(f"--data {data} failed", folder=folder), arguments_hidden(module):
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
        if callable(value) and not isinstance(value, Iterable):
            value = value()
    if not isinstance(value, Iterable):
        raise UsageError(
            f"--data {data} is a {type(value).__name__}, not an iterable of batches.",
            "Name a DataLoader, a list of batches, or a function that returns one.",
        )
    with running_user_code(f"--data {data} failed", folder=folder):
        iterator = iter(value)
    while True:
        with running_user_code(f"--data {data} failed", folder=folder):
            try:
                batch = next(iterator)
            except StopIteration:
                return
        yield batch


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    if isinstance(given, (list, tuple)):
        return {f"arr_{index}": value for index, value in enumerate(given)}
    return {"arr_0": given}


def _by_name(values: Mapping[str, Any], examples: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values in the order of the arguments; those without names are taken in their order."""
    if set(values) == set(examples):
        return {name: values[name] for name in examples}
    takes = f"forward takes {len(examples)}: {', '.join(examples)}"
    if all(_UNNAMED.fullmatch(name) for name in values):
        if len(values) != len(examples):
            raise UsageError(
                f"{where} has {counted(len(values), 'array')}, {takes}.",
                "Give one array for each argument, in this order or by name.",
            )
        return {name: values[f"arr_{index}"] for index, name in enumerate(examples)}
    raise UsageError(
        f"{where} has {', '.join(sorted(values)) or 'no arrays'}; {takes}.",
        "Name the arrays as the arguments are named.",
    )


def _tensor(value: Any) -> Any:
    import numpy
    import torch

    if not isinstance(value, numpy.ndarray):
        return value
    try:
        return torch.from_numpy(numpy.ascontiguousarray(value))
    except TypeError:
        raise UsageError(
            f"--data: arrays of {value.dtype} are none that torch has.",
            "Convert them to the dtype of the example inputs before they are saved.",
        ) from None


def _tensors(value: Any) -> Any:
    from torch.utils._pytree import tree_map

    return tree_map(_tensor, value)


def _check(
    where: str, got: Any, example: Any, *, samples: bool = False, dynamic: bool = False
) -> None:
    """Dtype and shape must be the example's; dim 0 is free for samples and a dynamic batch."""
    kind, wanted = (str(tensor.dtype).removeprefix("torch.") for tensor in (got, example))
    free = samples or dynamic
    same = tuple(got.shape) == tuple(example.shape)
    if free and got.dim() == example.dim() > 0:
        same = tuple(got.shape[1:]) == tuple(example.shape[1:])
    if kind != wanted or not same:
        shape = ["N", *example.shape[1:]] if free else list(example.shape)
        told = ", ".join(map(str, shape))
        raise UsageError(
            f"{where} is {kind}{list(got.shape)}, the model takes {wanted}[{told}].",
            "Data must have the dtype and the shape of the example inputs.",
        )


def _batch(workload: Workload, values: Mapping[str, Any]) -> Batch:
    names = list(values)
    count = len(workload.inputs)
    positional = tuple(values[name] for name in names[:count])
    return positional, {name: values[name] for name in names[count:]}
