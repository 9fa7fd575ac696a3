"""The files of `opsets/`: kernels, limits and lowering; strictly decoded, written in one form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from graphcheck.errors import UsageError
from graphcheck.opset.conditions import validate
from graphcheck.opset.types import Limit, Opset

__all__ = ["KernelFile", "LimitFile", "LoweringFile", "dump", "read"]

T = TypeVar("T")
SCHEMA = 1


class KernelFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`opsets/<runtime>-<version>.yaml`: the registry names of one runtime, generated.

    `kernels` is what the wheel's Python runs: optimized, where that library has a kernel of its
    own, portable otherwise. See `Opset` for the other lists.
    """

    schema: int
    runtime: str
    version: str
    library: str
    source: str
    kernels: list[str]
    commit: str = ""
    optimized: list[str] = []
    optimized_only: list[str] = []
    quantized: list[str] = []


class _Limit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    id: str
    kernels: list[str]
    rule: str
    when: dict[str, Any]
    reason: str
    evidence: str
    effect: Literal["refused", "wrong"] = "refused"


class _History(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    measured: list[str] = []
    since: str = ""


class LimitFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`opsets/limits/*.yaml`: arguments that registered kernels refuse, kept by hand.

    `versions` is a PEP 440 range of runtimes. `kernels` of an entry may name a group of `groups`.
    Every limit was measured on the versions `measured`; `history` has by id on which others it was
    measured to be the same, and since which version it is there at all.
    """

    schema: int
    runtime: str
    versions: str
    limits: list[_Limit]
    groups: dict[str, list[str]] = {}
    measured: list[str] = []
    history: dict[str, _History] = {}

    def expand(self, where: str, version: str = "") -> tuple[Limit, ...]:
        """One `Limit` per kernel, of those that a version has ("": all).

        What was not measured on the version says so. Raises UsageError naming `where` and the
        entry.
        """
        found: list[Limit] = []
        seen: set[str] = set()
        for entry in self.limits:
            place = f"{where}: limit {entry.id}"
            if entry.id in seen:
                raise UsageError(f"{place}: the id is used twice.")
            seen.add(entry.id)
            if not entry.rule.startswith("GC2"):
                raise UsageError(f"{place}: rule: a GC2 code is needed, not {entry.rule!r}.")
            validate(entry.when, place)
            history = self.history.get(entry.id, _History())
            if version and history.since and _before(version, history.since):
                continue
            on = [*self.measured, *history.measured]
            known = not version or not on or version in on
            evidence = entry.evidence
            if not known:
                evidence = f"NOT MEASURED on {version}, known of {', '.join(on)}: {evidence}"
            for kernel in self._kernels(entry, place):
                found.append(
                    Limit(
                        id=entry.id,
                        kernel=kernel,
                        rule=entry.rule,
                        when=entry.when,
                        reason=entry.reason,
                        evidence=evidence,
                        effect=entry.effect,
                        measured=known,
                    )
                )
        unknown = self.history.keys() - seen
        if unknown:
            raise UsageError(f"{where}: history: there is no limit {min(unknown)!r}.")
        return tuple(found)

    def _kernels(self, entry: _Limit, place: str) -> list[str]:
        names: list[str] = []
        for name in entry.kernels:
            # An op that becomes no kernel (a view) is named as in the graph: `aten.view.default`.
            if "::" in name or "." in name or name == "*":
                names.append(name)
            elif name in self.groups:
                names.extend(self.groups[name])
            else:
                raise UsageError(f"{place}: kernels: there is no group {name!r}.")
        return names


def _before(version: str, since: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version) < Version(since)
    except InvalidVersion:
        return False


class LoweringFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`opsets/lowering/*.yaml`: what lowering makes of ops of the joint graph, kept by hand.

    `versions` is a PEP 440 range of runtimes. `exempt` are ops that become no kernel, with the
    reason. `kernels` maps an op (`aten.clone.default`) to the kernel it ends as.
    """

    schema: int
    runtime: str
    versions: str
    exempt: dict[str, str]
    kernels: dict[str, str]


def read(path: Path, type_: type[T]) -> T:
    """Decode a YAML file strictly. Raises UsageError with the file and the key in the message."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = path.read_text(encoding="utf-8")
        decoded = yaml.load(text, Loader=loader)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}.",
            "Correct it; `graphcheck opset generate` writes an opset anew.",
        ) from error
    except yaml.YAMLError as error:
        raise UsageError(
            f"{path} is not valid YAML: {' '.join(str(error).split())}.",
            "Correct it; `graphcheck opset generate` writes an opset anew.",
        ) from error
    try:
        result = msgspec.convert(decoded, type_, strict=True)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path} has a wrong form: {error}.",
            "Correct it; `graphcheck opset generate` writes an opset anew.",
        ) from error
    schema = getattr(result, "schema", SCHEMA)
    if schema != SCHEMA:
        raise UsageError(
            f"{path} has schema {schema}, but this graphcheck reads schema {SCHEMA}.",
            "Update graphcheck, or generate the file anew with `graphcheck opset generate`.",
        )
    return result


_REMARKS = {
    "optimized": ("# Of `kernels`: the optimized library has its own implementation.",),
    "optimized_only": ("# Of `optimized`: the portable library has none.",),
    "quantized": ("# A library of its own, beside `kernels`.",),
}


def dump(opset: Opset) -> str:
    """The kernel file of an opset: the same text for the same kernels, whatever their order."""
    lines = [
        f"# Kernels of {opset.runtime} {opset.version}, from {opset.source}.",
        "# Generated by `graphcheck opset generate`; do not edit, generate it anew instead.",
        "# What kernels refuse is kept by hand in limits/, what lowering does in lowering/.",
        f"schema: {SCHEMA}",
        f"runtime: {_quoted(opset.runtime)}",
        f"version: {_quoted(opset.version)}",
        f"library: {_quoted(opset.library)}",
        f"source: {_quoted(opset.source)}",
        *([f"commit: {_quoted(opset.commit)}"] if opset.commit else ()),
    ]
    for name in ("optimized", "optimized_only", "quantized"):
        if getattr(opset, name):
            lines += (*_REMARKS[name], *_listed(name, getattr(opset, name)))
    return "\n".join((*lines, *_listed("kernels", opset.kernels))) + "\n"


def _listed(name: str, kernels: frozenset[str]) -> list[str]:
    return [f"{name}:" if kernels else f"{name}: []", *(f"- {_quoted(k)}" for k in sorted(kernels))]


def _quoted(text: str) -> str:
    # A JSON string is a YAML string, whatever is in it.
    return msgspec.json.encode(text).decode()
