"""The form of conditions on an op call: known keys, values of the right kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphcheck.errors import UsageError

__all__ = ["BOUNDS", "GROUPS", "PROPERTIES", "check_condition"]

PROPERTIES = ("dtype", "rank", "shape", "numel", "dim_order", "layout")
GROUPS = ("argument", "output", "tensor")
BOUNDS = ("min", "max", "above", "below")


def _wrong(where: str, path: str, problem: str) -> UsageError:
    return UsageError(f"{where}: {path}: {problem}.")


def _mapping(value: Any, where: str, path: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(where, path, f"a mapping is needed, not {value!r}")
    return value


def _sequence(value: Any, where: str, path: str) -> Sequence[Any]:
    if not isinstance(value, list) or not value:
        raise _wrong(where, path, f"a list that is not empty is needed, not {value!r}")
    return value


def check_condition(when: Any, where: str, path: str) -> None:
    for key, value in _mapping(when, where, path).items():
        here = f"{path}.{key}"
        if key in ("all_of", "any_of"):
            for number, part in enumerate(_sequence(value, where, here)):
                check_condition(part, where, f"{here}[{number}]")
        elif key == "not":
            check_condition(value, where, here)
        elif key in ("op", "overload"):
            _check_names(value, where, here)
        elif key == "backward":
            _check_flag(value, where, here)
        elif key in ("argument", "output"):
            for name, test in _mapping(value, where, here).items():
                if key == "output" and not str(name).isdigit():
                    raise _wrong(where, here, f"an output is named by its number, not {name!r}")
                _check_test(test, where, f"{here}.{name}")
        elif key == "different":
            _check_different(value, where, here)
        elif key in {f"{q}_{group}" for q in ("any", "every") for group in GROUPS}:
            _check_test(value, where, here)
        else:
            raise _wrong(where, path, f"unknown key {key!r} in a condition")


def _check_different(value: Any, where: str, path: str) -> None:
    keys = set(_mapping(value, where, path))
    if keys != {"of", "among"}:
        raise _wrong(where, path, f"the keys are 'of' and 'among', not {sorted(map(str, keys))}")
    if value["of"] not in PROPERTIES:
        raise _wrong(where, path, f"'of' is one of {', '.join(PROPERTIES)}, not {value['of']!r}")
    among = value["among"]
    if isinstance(among, str) and among not in ("arguments", "outputs", "all"):
        raise _wrong(where, path, f"'among' is arguments, outputs, all or a list, not {among!r}")
    if not isinstance(among, str):
        _check_names(among, where, f"{path}.among")


def _check_names(value: Any, where: str, path: str) -> None:
    names = [value] if isinstance(value, str) else _sequence(value, where, path)
    if not all(isinstance(name, str) for name in names):
        raise _wrong(where, path, f"a name or a list of names is needed, not {value!r}")


def _check_flag(value: Any, where: str, path: str) -> None:
    if not isinstance(value, bool):
        raise _wrong(where, path, f"true or false is needed, not {value!r}")


def _check_test(test: Any, where: str, path: str) -> None:
    for key, value in _mapping(test, where, path).items():
        here = f"{path}.{key}"
        if key in ("all_of", "any_of"):
            for number, part in enumerate(_sequence(value, where, here)):
                _check_test(part, where, f"{here}[{number}]")
        elif key in ("not", "any", "every"):
            _check_test(value, where, here)
        elif key in ("is_none", "is_tensor", "float32_exact"):
            _check_flag(value, where, here)
        elif key == "one_of":
            _sequence(value, where, here)
        elif key in ("value", "length", "rank", "numel"):
            _check_number(value, where, here)
        elif key == "size":
            for dim, number in _mapping(value, where, here).items():
                if isinstance(dim, bool) or not isinstance(dim, int):
                    raise _wrong(where, here, f"a dimension is an integer, not {dim!r}")
                _check_number(number, where, f"{here}.{dim}")
        elif key in ("dtype", "dim_order"):
            _check_names(value, where, here)
        elif key != "equals":
            raise _wrong(where, path, f"unknown key {key!r} in a test")


def _check_number(value: Any, where: str, path: str) -> None:
    numbers = value
    if isinstance(value, Mapping):
        unknown = sorted(str(key) for key in value if key not in BOUNDS)
        if unknown or not value:
            raise _wrong(where, path, f"the bounds are {', '.join(BOUNDS)}, not {unknown}")
        numbers = list(value.values())
    for number in numbers if isinstance(numbers, list) else [numbers]:
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise _wrong(where, path, f"a number is needed, not {number!r}")
