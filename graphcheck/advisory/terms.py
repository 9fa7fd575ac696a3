"""How many terms a call adds up, from its shapes, as data of an advisory.

A reduction is a mapping with one source of the number::

    reduction: {of: mat1, dims: [1]}             product of these sizes of an argument
    reduction: {of: weight, dims_from: 1}        all sizes from this one on
    reduction: {of: grad_output, dims_except: [1]}
    reduction: {of: self, dims_argument: dim}    the dims that another argument names; None: all
    reduction: {of_indices: indices}             the entries of the largest tensor of a list
    reduction: {product_of: kernel_size}         the product of a list of numbers

and optionally `min` and `below`, the numbers of terms that are affected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from graphcheck.errors import UsageError
from graphcheck.graph.types import OpCall, TensorFact

__all__ = ["count_terms", "in_bounds", "validate_reduction"]

_FORMS = (
    {"of", "dims"},
    {"of", "dims_from"},
    {"of", "dims_except"},
    {"of", "dims_argument"},
    {"of_indices"},
    {"product_of"},
)
_BOUNDS = {"min", "below"}


def validate_reduction(reduction: Mapping[str, Any], where: str) -> None:
    """Check the form. Raises UsageError naming `where`."""
    keys = set(reduction)
    if keys - _BOUNDS not in _FORMS:
        raise UsageError(f"{where}: reduction: the keys {sorted(keys)} do not belong together.")
    for bound in keys & _BOUNDS:
        if isinstance(reduction[bound], bool) or not isinstance(reduction[bound], int):
            raise UsageError(f"{where}: reduction.{bound}: an integer is needed.")


def count_terms(reduction: Mapping[str, Any], call: OpCall) -> tuple[int, bool]:
    """The number of terms, and whether it is exact.

    Sizes that are not known before the program runs count as 1: the number is then a lower bound.
    """
    sizes = _sizes(reduction, call)
    if sizes is None:
        return 1, False
    known = [size for size in sizes if isinstance(size, int)]
    return math.prod(known), len(known) == len(sizes)


def in_bounds(reduction: Mapping[str, Any] | None, call: OpCall) -> bool:
    """Whether the number of terms is certainly among those affected."""
    if reduction is None or not set(reduction) & _BOUNDS:
        return True
    terms, exact = count_terms(reduction, call)
    if terms < reduction.get("min", 0):
        return False
    return "below" not in reduction or (exact and terms < reduction["below"])


def _sizes(reduction: Mapping[str, Any], call: OpCall) -> list[int | str] | None:
    if "product_of" in reduction:
        numbers = call.arguments.get(reduction["product_of"])
        return list(numbers) if isinstance(numbers, (list, tuple)) else None
    if "of_indices" in reduction:
        tensors = call.arguments.get(reduction["of_indices"])
        candidates = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        shapes = [tensor.shape for tensor in candidates if isinstance(tensor, TensorFact)]
        return list(max(shapes, key=_known_product)) if shapes else None
    tensor = call.arguments.get(reduction["of"])
    if not isinstance(tensor, TensorFact):
        return None
    return [tensor.shape[dim] for dim in _dims(reduction, call, tensor.rank)]


def _known_product(shape: Iterable[int | str]) -> int:
    return math.prod(size for size in shape if isinstance(size, int))


def _dims(reduction: Mapping[str, Any], call: OpCall, rank: int) -> Iterable[int]:
    if "dims_from" in reduction:
        return range(reduction["dims_from"], rank)
    if "dims_except" in reduction:
        left_out = {dim % rank for dim in reduction["dims_except"]} if rank else set()
        return [dim for dim in range(rank) if dim not in left_out]
    dims = reduction.get("dims")
    if "dims_argument" in reduction:
        dims = call.arguments.get(reduction["dims_argument"])
        if isinstance(dims, int):
            dims = [dims]
    if not dims:
        return range(rank)
    return [dim % rank for dim in dims if -rank <= dim < rank]
