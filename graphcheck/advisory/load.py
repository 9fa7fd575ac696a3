"""Read the advisories, `opsets/advisories/GCA-*.yaml`; imports neither torch nor executorch.

A file has the fields of OSV (id, aliases, published, modified, summary, details, affected,
references) under their names, and those of ours beside them; `graphcheck.advisory.osv` writes the
first as they are and the second as `ecosystem_specific` and `database_specific`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from graphcheck.advisory.ranges import in_range
from graphcheck.advisory.terms import validate_reduction
from graphcheck.advisory.types import Advisory, Verified
from graphcheck.errors import UsageError
from graphcheck.opset.conditions import validate
from graphcheck.resources import opsets_dir

__all__ = ["advisory_by_id", "all_advisories", "load_advisory"]


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Mend(_Struct, frozen=True):
    kind: Literal["rewrite", "swap", "patch", "edit"]
    name: str
    description: str
    exact: bool
    command: str = ""


class _Package(_Struct, frozen=True):
    ecosystem: Literal["PyPI"]
    name: Literal["executorch"]


class _Range(_Struct, frozen=True):
    type: Literal["ECOSYSTEM"]
    events: tuple[dict[Literal["introduced", "fixed", "last_affected"], str], ...]


class _Affected(_Struct, frozen=True):
    package: _Package
    ranges: tuple[_Range, ...]


class _Reference(_Struct, frozen=True):
    type: Literal["REPORT", "FIX", "WEB", "ARTICLE", "EVIDENCE", "DISCUSSION"]
    url: str


class _Verified(_Struct, frozen=True):
    command: str
    wrong: tuple[str, ...] = ()
    right: tuple[str, ...] = ()


class _File(_Struct, frozen=True):
    """The keys a file may have; see `Advisory`."""

    id: str
    published: str
    modified: str
    summary: str
    details: str
    affected: tuple[_Affected, ...]
    severity: Literal["silently wrong", "memory damaged"]
    says: str
    kernels: tuple[str, ...]
    rule: str
    consequence: str
    evidence: tuple[str, ...]
    verified: tuple[_Verified, ...]
    probe: str
    aliases: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    references: tuple[_Reference, ...] = ()
    when: dict[str, Any] | None = None
    mends: tuple[_Mend, ...] = ()
    patch: tuple[str, ...] = ()
    libraries: tuple[Literal["portable", "optimized"], ...] = ()
    concerns: Literal["ops", "mutated_buffers", "half_parameters"] = "ops"
    reduction: dict[str, Any] | None = None


@lru_cache(maxsize=1)
def all_advisories() -> tuple[Advisory, ...]:
    """Every advisory, in order of id. Raises UsageError naming the file and the key at fault."""
    return tuple(load_advisory(path) for path in sorted(_folder().glob("GCA-*.yaml")))


def advisory_by_id(advisory_id: str) -> Advisory | None:
    """The advisory with this id (case is ignored), or None."""
    return next((a for a in all_advisories() if a.id == advisory_id.upper()), None)


def load_advisory(path: Path) -> Advisory:
    """Read one file strictly: unknown keys, wrong types and wrong versions are errors.

    Raises UsageError with the name of the file, the key and what is wrong.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
        file = msgspec.convert(raw, _File)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise _unusable(path, " ".join(str(error).split())) from error
    if file.id != path.stem:
        raise _unusable(path, f"its id is {file.id!r}, which must be the name of the file")
    if (file.concerns == "ops") != bool(file.ops):
        raise _unusable(path, "it must name the ops it concerns, or say what else it concerns")
    if file.when is not None:
        validate(file.when, path.name)
    if file.reduction is not None:
        validate_reduction(file.reduction, path.name)
    events = _events(file, path)
    advisory = Advisory(
        title=file.summary,
        what=" ".join(file.details.split()),
        consequence=" ".join(file.consequence.split()),
        affected=_specifier(events),
        fixed_in=dict(events).get("fixed", ""),
        events=events,
        mends=tuple(msgspec.to_builtins(mend) for mend in file.mends),
        references=tuple(reference.url for reference in file.references),
        reference_types=tuple(reference.type for reference in file.references),
        verified=_verified(file),
        patches=file.patch,
        **{name: getattr(file, name) for name in _SAME},
    )
    _check_verified(advisory, path)
    return advisory


_SAME = (
    *("id", "aliases", "published", "modified", "severity", "says", "ops", "kernels", "rule"),
    *("evidence", "probe", "when", "libraries", "concerns", "reduction"),
)


def _events(file: _File, path: Path) -> tuple[tuple[str, str], ...]:
    """The events of the one range, in order. Raises UsageError for any other form."""
    from packaging.version import InvalidVersion, Version

    ranges = [entry for affected in file.affected for entry in affected.ranges]
    events = tuple(pair for entry in ranges for event in entry.events for pair in event.items())
    kinds = [kind for kind, _ in events]
    if kinds not in (["introduced", "fixed"], ["introduced", "last_affected"], ["introduced"]):
        raise _unusable(
            path, "affected: one range with introduced, and fixed or last_affected, is needed"
        )
    for _, version in events:
        try:
            Version(version)
        except InvalidVersion as error:
            raise _unusable(path, f"affected: {version!r} is no version") from error
    if len(events) == 2 and Version(events[1][1]) < Version(events[0][1]):
        raise _unusable(path, f"affected: it ends with {events[1][1]}, before it begins")
    return events


def _specifier(events: tuple[tuple[str, str], ...]) -> str:
    """The PEP 440 range of the events: `==1.5.1`, `>=0.6.0,<=1.5.1`, `>=0.6.0,<1.3.1`."""
    signs = {"introduced": ">=", "fixed": "<", "last_affected": "<="}
    if len(events) == 2 and events[1] == ("last_affected", events[0][1]):
        return f"=={events[0][1]}"
    return ",".join(f"{signs[kind]}{version}" for kind, version in events)


def _verified(file: _File) -> tuple[Verified, ...]:
    from packaging.version import Version

    found = [
        Verified(version, outcome, entry.command)
        for entry in file.verified
        for outcome in ("wrong", "right")
        for version in getattr(entry, outcome)
    ]
    return tuple(sorted(found, key=lambda entry: Version(entry.version)))


def _check_verified(advisory: Advisory, path: Path) -> None:
    """What was seen must not contradict the range."""
    for entry in advisory.verified:
        if (in_range(advisory, entry.version) is True) != (entry.outcome == "wrong"):
            raise _unusable(
                path,
                f"verified: {entry.version} was seen {entry.outcome}, which the range "
                f"{advisory.affected} contradicts",
            )


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"the advisory {path.name} cannot be read: {why}.",
        f"Correct {path}, or install graphcheck again.",
    )


def _folder() -> Path:
    return opsets_dir() / "advisories"
