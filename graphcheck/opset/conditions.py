"""Conditions on an op call, as data: shared by the limits of kernels and by advisories.

A condition is a mapping; all its keys must hold. It is written in YAML as, for instance::

    when:
      argument: {transposed: {equals: true}, weight: {rank: 4}}
      not: {any_tensor: {dtype: [float16, bfloat16]}}

Keys of a condition
    ``all_of``, ``any_of``   lists of conditions
    ``not``                  a condition
    ``op``, ``overload``     a name or a list of names (``aten.sum``, ``dim_IntList``)
    ``backward``             true or false: the call belongs to the backward graph
    ``argument``             names of schema arguments, each with a test
    ``output``               numbers of outputs (0, 1, ...), each with a test
    ``any_argument``, ``every_argument``   a test on the tensor arguments, lists of tensors included
    ``any_output``, ``every_output``       a test on the outputs
    ``any_tensor``, ``every_tensor``       a test on tensor arguments and outputs together
    ``different``            ``{of: dtype, among: [self, out]}``: two of these tensors differ in
                             dtype, rank, shape, numel, dim_order or layout (dim_order's kind, the
                             same for tensors of different rank). ``among`` is ``arguments``,
                             ``outputs``, ``all``, or a list of argument names, ``out`` (output 0)
                             and ``out.N``; tensors that are None are left out

Keys of a test (of a tensor, a number, a string, a list, or None)
    ``all_of``, ``any_of``, ``not``        tests
    ``is_none``, ``is_tensor``   true or false
    ``float32_exact``  true or false: float32 holds this plain number exactly
    ``equals``       exactly this value (a list is compared element by element)
    ``one_of``       a list of values
    ``value``        a number test, of a number
    ``any``, ``every``   a test on the elements of a list
    ``length``       a number test, of the length of a list
    ``rank``, ``numel``   number tests, of a tensor
    ``size``         dimensions (negative ones count from the end), each with a number test
    ``dtype``        a name (``float32``) or a list of names; of a tensor
    ``dim_order``    its kind: ``contiguous`` (0, 1, 2, ...), ``channels_last`` (0, 2, 3, 1 or
                     0, 2, 3, 4, 1), ``other``, or a list of these; of a tensor

A number test is a number, a list of numbers, or a mapping with ``min``, ``max`` (both inclusive),
``below``, ``above``.

The logic has three values. What cannot be known (a symbolic size, an argument the call does not
have, a test that does not fit the kind of value) is undecided, and so is its negation; `matches` is
true only for what is certain, so that a limit never raises a false alarm.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from graphcheck.errors import UsageError
from graphcheck.graph.types import OpCall, TensorFact
from graphcheck.opset.condition_form import GROUPS, check_condition

__all__ = ["dim_order_kind", "float32_exact", "is_undecided", "matches", "tensors_of", "validate"]

_Answer = bool | None


def matches(when: Mapping[str, Any] | None, call: OpCall) -> bool:
    """Whether the condition certainly holds for this call; an empty one holds for every call.

    Raises UsageError for an unknown key (see `validate`, which names the file, too).
    """
    return _condition(when or {}, call) is True


def is_undecided(when: Mapping[str, Any] | None, call: OpCall) -> bool:
    """Whether the condition depends on something that is not known before the program runs."""
    return _condition(when or {}, call) is None


def validate(when: Any, where: str) -> None:
    """Check the form of a condition without a call.

    `where` names the file and the entry. Raises UsageError naming `where` and the key.
    """
    check_condition(when, where, "when")


# --- three-valued logic -----------------------------------------------------------------------


def _all(answers: Iterable[_Answer]) -> _Answer:
    result: _Answer = True
    for answer in answers:
        if answer is False:
            return False
        if answer is None:
            result = None
    return result


def _any(answers: Iterable[_Answer]) -> _Answer:
    return _not(_all(_not(answer) for answer in answers))


def _not(answer: _Answer) -> _Answer:
    return None if answer is None else not answer


# --- conditions -------------------------------------------------------------------------------


def _condition(when: Mapping[str, Any], call: OpCall) -> _Answer:
    return _all(_condition_key(key, value, call) for key, value in when.items())


def _condition_key(key: str, value: Any, call: OpCall) -> _Answer:
    if key == "all_of":
        return _all(_condition(part, call) for part in value)
    if key == "any_of":
        return _any(_condition(part, call) for part in value)
    if key == "not":
        return _not(_condition(value, call))
    if key in ("op", "overload"):
        return getattr(call, key) in ([value] if isinstance(value, str) else value)
    if key == "backward":
        return call.backward is bool(value)
    if key == "argument":
        return _all(
            _test(test, call.arguments[name]) if name in call.arguments else None
            for name, test in value.items()
        )
    if key == "output":
        return _all(
            _test(test, call.outputs[int(number)]) if int(number) < len(call.outputs) else None
            for number, test in value.items()
        )
    if key == "different":
        return _different(value, call)
    quantifier, _, group = key.partition("_")
    if quantifier in ("any", "every") and group in GROUPS:
        answers = (_test(value, tensor) for tensor in _tensors(group, call))
        return _any(answers) if quantifier == "any" else _all(answers)
    raise UsageError(f"a condition has the unknown key {key!r}.")


def tensors_of(call: OpCall) -> list[TensorFact]:
    """Every tensor of a call, those in lists as well: arguments, then outputs."""
    return _tensors("tensor", call)


def _tensors(group: str, call: OpCall) -> list[TensorFact]:
    found: list[TensorFact] = []
    if group in ("argument", "tensor"):
        for value in call.arguments.values():
            found.extend(_flatten(value))
    if group in ("output", "tensor"):
        found.extend(call.outputs)
    return found


def _flatten(value: Any) -> list[TensorFact]:
    if isinstance(value, TensorFact):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, TensorFact)]
    return []


def _different(value: Mapping[str, Any], call: OpCall) -> _Answer:
    among = value["among"]
    groups = {"arguments": "argument", "outputs": "output", "all": "tensor"}
    if isinstance(among, str):
        tensors = _tensors(groups[among], call)
    else:
        tensors = []
        for name in among:
            if name == "out" or name.startswith("out."):
                number = int(name[4:] or 0)
                tensors.extend(call.outputs[number : number + 1])
            else:
                tensors.extend(_flatten(call.arguments.get(name)))
    known = [_property(tensor, value["of"]) for tensor in tensors]
    certain = [item for item in known if item is not None]
    if any(item != certain[0] for item in certain[1:]):
        return True
    return False if len(certain) == len(known) else None


def _property(tensor: TensorFact, name: str) -> Any:
    if name == "rank":
        return tensor.rank
    if name == "dtype":
        return tensor.dtype
    if name == "layout":
        return dim_order_kind(tensor)
    if name == "dim_order":
        return tensor.dim_order if tensor.dim_order or not tensor.rank else None
    if any(isinstance(size, str) for size in tensor.shape):
        return None
    return tensor.shape if name == "shape" else math.prod(int(size) for size in tensor.shape)


# --- tests of one value -----------------------------------------------------------------------


def _test(test: Mapping[str, Any], value: Any) -> _Answer:
    return _all(_test_key(key, expected, value) for key, expected in test.items())


def _test_key(key: str, expected: Any, value: Any) -> _Answer:
    if key == "all_of":
        return _all(_test(part, value) for part in expected)
    if key == "any_of":
        return _any(_test(part, value) for part in expected)
    if key == "not":
        return _not(_test(expected, value))
    if key == "is_none":
        return (value is None) is bool(expected)
    if key == "is_tensor":
        return isinstance(value, TensorFact) is bool(expected)
    if key == "float32_exact":
        exact = float32_exact(value)
        return None if exact is None else exact is bool(expected)
    if key in ("equals", "one_of"):
        return _equals(key, expected, value)
    if key in ("any", "every", "length"):
        return _list_test(key, expected, value)
    if key == "value":
        return _number(expected, value)
    if key in _TENSOR_TESTS:
        return _TENSOR_TESTS[key](expected, value) if isinstance(value, TensorFact) else None
    raise UsageError(f"a test of a value has the unknown key {key!r}.")


def float32_exact(value: Any) -> bool | None:
    """Whether float32 holds a plain number exactly; None for what is no number (a flag is none)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def _equals(key: str, expected: Any, value: Any) -> _Answer:
    wanted = expected if key == "one_of" else [expected]
    plain = list(value) if isinstance(value, (list, tuple)) else value
    # True == 1 in Python, but a flag is not a number.
    return any(
        plain == item and isinstance(plain, bool) is isinstance(item, bool) for item in wanted
    )


def _list_test(key: str, expected: Any, value: Any) -> _Answer:
    if not isinstance(value, (list, tuple)):
        return None
    if key == "length":
        return _number(expected, len(value))
    answers = (_test(expected, item) for item in value)
    return _any(answers) if key == "any" else _all(answers)


def _number(expected: Any, value: Any) -> _Answer:
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float)):
        return None
    if isinstance(expected, Mapping):
        return all(_BOUNDS[bound](value, limit) for bound, limit in expected.items())
    return value in expected if isinstance(expected, list) else value == expected


def _size(expected: Mapping[Any, Any], value: TensorFact) -> _Answer:
    def one(dim: int, test: Any) -> _Answer:
        return _number(test, value.shape[dim]) if -value.rank <= dim < value.rank else None

    return _all(one(int(dim), test) for dim, test in expected.items())


def _names(actual: str, expected: Any) -> bool:
    return actual in ([expected] if isinstance(expected, str) else expected)


def _dim_order(expected: Any, value: TensorFact) -> _Answer:
    kind = dim_order_kind(value)
    return None if kind is None else _names(kind, expected)


def dim_order_kind(tensor: TensorFact) -> str | None:
    """`contiguous`, `channels_last` or `other`; None when symbolic strides leave it open.

    As in ExecuTorch, only tensors of 4 or 5 dimensions can be channels-last.
    """
    order = tuple(tensor.dim_order)
    if order == tuple(range(tensor.rank)):
        return "contiguous"
    if not order:
        return None
    last = tensor.rank in (4, 5) and order == (0, *range(2, tensor.rank), 1)
    return "channels_last" if last else "other"


_TENSOR_TESTS: dict[str, Callable[[Any, TensorFact], _Answer]] = {
    "rank": lambda expected, tensor: _number(expected, tensor.rank),
    "numel": lambda expected, tensor: _number(expected, _property(tensor, "numel")),
    "dtype": lambda expected, tensor: _names(tensor.dtype, expected),
    "dim_order": _dim_order,
    "size": _size,
}
_BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "min": lambda value, limit: value >= limit,
    "max": lambda value, limit: value <= limit,
    "above": lambda value, limit: value > limit,
    "below": lambda value, limit: value < limit,
}
