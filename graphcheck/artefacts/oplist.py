"""`graphcheck oplist`: the operators that a selective build of a program needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphcheck.artefacts.calls import is_metadata
from graphcheck.artefacts.reach import reach
from graphcheck.errors import UsageError
from graphcheck.graph.pte_types import PteInstruction, PteMethod, PteProgram

__all__ = [
    "Build",
    "Lack",
    "Operator",
    "OperatorList",
    "is_prim",
    "lacks",
    "operators_of",
    "read_build",
]

_CODES = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "bool": 11,
    "bfloat16": 15,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
}
_PRIM = "executorch_prim::"
_PRIM_ATEN = (
    "aten::sym_size.int",
    "aten::sym_numel",
    "aten::_local_scalar_dense",
    "aten::sym_stride.int",
)
_DEFAULT = "default"


@dataclass(frozen=True)
class Operator:
    """An operator: how often it is called, and with which kernel keys.

    A key is `v1/` and, for each tensor argument in order (out arguments and the result included),
    dtype and dim order as the runtime's registry writes them. `forward` and `backward` count the
    calls; those of a method that is not trained are forward.
    """

    name: str
    keys: tuple[str, ...] = ()
    forward: int = 0
    backward: int = 0
    methods: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorList:
    """The operators of a program, in order of name; `delegates` are backends it needs, too."""

    source: str
    operators: tuple[Operator, ...]
    delegates: tuple[str, ...] = ()
    training: tuple[str, ...] = ()


@dataclass(frozen=True)
class Build:
    """What a selective build has: kernel keys by operator, () for every key; `everything`: all."""

    operators: Mapping[str, frozenset[str]] = field(default_factory=dict)
    everything: bool = False


@dataclass(frozen=True)
class Lack:
    """What a build lacks: an operator, or for one it has these kernel keys."""

    operator: str
    keys: tuple[str, ...] = ()
    calls: int = 0


def is_prim(name: str) -> bool:
    """Whether the runtime registers the operator itself, apart from kernel libraries."""
    return name.startswith(_PRIM) or name in _PRIM_ATEN


def operators_of(program: PteProgram, source: str) -> OperatorList:
    """Every operator that a method of the program calls."""
    keys: dict[str, dict[str, None]] = {}
    counts: dict[str, list[int]] = {}
    users: dict[str, dict[str, None]] = {}
    delegates: dict[str, None] = {}
    for method in program.methods:
        if is_metadata(method):
            continue
        loss_at = reach(method, program.training.get(method.name)).loss_at
        delegates.update(dict.fromkeys(method.delegates))
        for name in method.operators:
            keys.setdefault(name, {})
            counts.setdefault(name, [0, 0])
        for instruction in method.instructions:
            if instruction.kind != "kernel":
                continue
            users.setdefault(instruction.op, {})[method.name] = None
            counts[instruction.op][instruction.index > loss_at >= 0] += 1
            key = _key(method, instruction)
            if key:
                keys[instruction.op][key] = None
    return OperatorList(
        source=source,
        operators=tuple(
            Operator(
                name=name,
                keys=tuple(sorted(keys[name])),
                forward=counts[name][0],
                backward=counts[name][1],
                methods=tuple(users.get(name, ())),
            )
            for name in sorted(keys)
        ),
        delegates=tuple(sorted(delegates)),
        training=tuple(program.training),
    )


def _key(method: PteMethod, instruction: PteInstruction) -> str:
    """The key as ExecuTorch's own list has it, "" for an unknown dtype.

    A list of tensors counts by its first one.
    """
    tensors = []
    for index in instruction.args:
        tensors += [method.values[tensor] for tensor in method.tensors(index)[:1]]
    if any(tensor.dtype not in _CODES for tensor in tensors):
        return ""
    parts = (f"{_CODES[t.dtype]};{','.join(map(str, t.dim_order))}" for t in tensors)
    return f"v1/{'|'.join(parts)}" if tensors else "v1"


def read_build(path: Path) -> Build:
    """A selective build's list of operators.

    Read are the forms that ExecuTorch's build takes or writes: `selected_operators.yaml` (mappings
    `operators` and `et_kernel_metadata`), a plain list of operators, and the `op:`/`func:` entries
    of `functions.yaml`. Raises UsageError for anything else.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(
            f"--compare {path}: it cannot be read: {why}.",
            "Give the operator list of a build: selected_operators.yaml.",
        ) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(
            f"--compare {path}: it is no YAML: {' '.join(str(error).split())}.",
            "Give the operator list of a build: selected_operators.yaml.",
        ) from error
    build = _build(content)
    if build is None:
        raise UsageError(
            f"--compare {path}: it lists no operators.",
            "Give the selected_operators.yaml of your build, or a functions.yaml.",
        )
    return build


def _build(content: Any) -> Build | None:
    if isinstance(content, dict):
        if content.get("include_all_operators") is True:
            return Build(everything=True)
        operators, metadata = content.get("operators"), content.get("et_kernel_metadata") or {}
        if isinstance(operators, list):
            return _build(operators)
        if not isinstance(operators, dict) or not isinstance(metadata, dict):
            return None
        named = {str(name): frozenset(_strings(metadata.get(name))) for name in operators}
        named.update({str(name): frozenset(_strings(keys)) for name, keys in metadata.items()})
        for name, told in operators.items():
            if isinstance(told, dict) and told.get("include_all_overloads") is True:
                named[f"{name}.*"] = named[str(name)]
        return Build(named)
    if not isinstance(content, list):
        return None
    names = [_entry(entry) for entry in content]
    return Build({name: frozenset() for name in names if name}) if any(names) else None


def _entry(entry: Any) -> str:
    text = entry
    if isinstance(entry, dict):
        text = entry.get("op") or entry.get("func")
    if not isinstance(text, str):
        return ""
    name = text.partition("(")[0].strip()
    return name if "::" in name or not name else f"aten::{name}"


def _strings(keys: Any) -> Iterable[str]:
    return (str(key) for key in keys) if isinstance(keys, list) else ()


def lacks(wanted: OperatorList, build: Build) -> tuple[Lack, ...]:
    """What a build lacks for a program, in order of operator.

    Operators of the runtime itself are lacking only in a build that selects among them.
    """
    if build.everything:
        return ()
    selects_prim = any(is_prim(name) for name in build.operators)
    found = []
    for operator in wanted.operators:
        if is_prim(operator.name) and not selects_prim:
            continue
        have = build.operators.get(operator.name)
        if have is None:
            have = build.operators.get(f"{operator.name.partition('.')[0]}.*")
        calls = operator.forward + operator.backward
        if have is None:
            found.append(Lack(operator.name, (), calls))
        elif have and _DEFAULT not in have:
            plain = {key.partition("/")[2] for key in have}
            missing = tuple(key for key in operator.keys if key.partition("/")[2] not in plain)
            if missing:
                found.append(Lack(operator.name, missing, calls))
    return tuple(found)
