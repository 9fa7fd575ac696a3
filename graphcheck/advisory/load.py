"""Read the advisories, `opsets/advisories/GCA-*.yaml`; imports neither torch nor executorch."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from graphcheck.advisory.terms import validate_reduction
from graphcheck.advisory.types import Advisory
from graphcheck.errors import UsageError
from graphcheck.opset.conditions import validate
from graphcheck.resources import opsets_dir

__all__ = ["advisory_by_id", "all_advisories", "load_advisory"]


class _Mend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["rewrite", "swap", "patch", "edit"]
    name: str
    description: str
    exact: bool
    command: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys a file may have; see `Advisory`."""

    id: str
    title: str
    says: str
    kernels: tuple[str, ...]
    affected: str
    rule: str
    what: str
    consequence: str
    evidence: tuple[str, ...]
    probe: str
    ops: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    when: dict[str, Any] | None = None
    fixed_in: str = ""
    mends: tuple[_Mend, ...] = ()
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
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
        file = msgspec.convert(raw, _File)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise _unusable(path, " ".join(str(error).split())) from error
    if file.id != path.stem:
        raise _unusable(path, f"its id is {file.id!r}, which must be the name of the file")
    try:
        SpecifierSet(file.affected)
    except InvalidSpecifier as error:
        raise _unusable(path, f"affected: {file.affected!r} is no version range") from error
    if (file.concerns == "ops") != bool(file.ops):
        raise _unusable(path, "it must name the ops it concerns, or say what else it concerns")
    if file.when is not None:
        validate(file.when, path.name)
    if file.reduction is not None:
        validate_reduction(file.reduction, path.name)
    fields = {name: getattr(file, name) for name in file.__struct_fields__}
    for name in ("what", "consequence"):
        fields[name] = " ".join(fields[name].split())
    fields["mends"] = tuple(msgspec.to_builtins(mend) for mend in file.mends)
    return Advisory(**fields)


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"the advisory {path.name} cannot be read: {why}.",
        f"Correct {path}, or install graphcheck again.",
    )


def _folder() -> Path:
    return opsets_dir() / "advisories"
