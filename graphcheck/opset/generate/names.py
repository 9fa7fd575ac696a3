"""Registry names in kernel YAML files and in shared libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable

from graphcheck.errors import UsageError

__all__ = ["from_library", "from_yaml", "optimized_kernels"]

# A string constant: what comes before is no text (the first one of a section has no NUL before it).
_CONSTANT = re.compile(
    rb"(?<![\x20-\x7e])([a-z][a-z0-9_]*::[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?)\0"
)
# `vector::_M_realloc_insert` and the like are messages of the C++ library's exceptions.
_CXX_LIBRARY = re.compile(
    r"^(?:std|vector|basic_string|basic_string_view|deque|list|map|unordered_map|array|bitset|"
    r"optional|regex|filesystem|pybind11)::|::_M_"
)

# Kernels of the optimized library are functions `torch::executor::native::opt_*`; their mangled
# names are in the library: the number is the length of the name.
_OPTIMIZED = re.compile(rb"_ZN5torch8executor6native(\d+)(opt_[a-z0-9_]+)")
# Functions that are not named after the op and its overload.
_FUNCTIONS = {"aten::where.self_out": "opt_where_out", "aten::sum.IntList_out": "opt_sum_dim_out"}


def from_yaml(text: str, where: str) -> frozenset[str]:
    """Names in a kernel YAML file of ExecuTorch (`- op: add.out` or `- func: ns::add.out(...)`).

    Raises UsageError naming `where` if the file has another form.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        entries = yaml.load(text, Loader=loader) or []
    except yaml.YAMLError as error:
        raise UsageError(f"{where} is not valid YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{where} is no list of kernels.")
    names = set()
    for entry in entries:
        name = entry.get("op") or str(entry.get("func", "")).partition("(")[0]
        if not name:
            raise UsageError(f"{where} has an entry without 'op' and 'func': {entry!r}.")
        names.add(name if "::" in name else f"aten::{name}")
    return frozenset(names)


def from_library(data: bytes) -> frozenset[str]:
    """Registry names among the string constants of a shared library.

    Registration passes the name as a constant, so every registered kernel is found; names that a
    library holds for other reasons would be found, too (in the wheels looked at there are none).
    """
    names: Iterable[str] = (match.group(1).decode() for match in _CONSTANT.finditer(data))
    return frozenset(name for name in names if not _CXX_LIBRARY.search(name))


def optimized_kernels(data: bytes, names: Iterable[str], where: str) -> frozenset[str]:
    """Those of the registered `names` for which a library has a function of the optimized kernels.

    Raises UsageError naming `where` for a function that belongs to none of them.
    """
    functions = {name[: int(size)].decode() for size, name in _OPTIMIZED.findall(data)}
    found = {name: _function(name) for name in names}
    left = functions.difference(found.values())
    if left:
        raise UsageError(
            f"{where} has optimized kernels that belong to no registered name: "
            f"{', '.join(sorted(left))}."
        )
    return frozenset(name for name, function in found.items() if function in functions)


def _function(name: str) -> str:
    """`opt_add_scalar_out` of `aten::add.Scalar_out`."""
    plain = name.partition("::")[2].lstrip("_").replace(".", "_").lower()
    return _FUNCTIONS.get(name, f"opt_{plain}")
