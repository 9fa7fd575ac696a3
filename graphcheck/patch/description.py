"""Read the patches, `patches/<id>/patch.yaml`; imports neither torch nor executorch.

One description serves both ways: `kernels` names what the kernel library puts right (its code is
`kernel.cpp` beside the description), `source` how a source tree is edited. Either may be missing.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from graphcheck.errors import UsageError
from graphcheck.resources import patches_dir

__all__ = [
    "Patch",
    "Site",
    "Source",
    "Step",
    "Variant",
    "all_patches",
    "load_patch",
    "patch_by_id",
    "read_patches",
]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change inside a function: where `find` matches, do exactly one of the others.

    `find` is a pattern of tokens: `$name` is one identifier (the same wherever it recurs in the
    variant), `${name}` the shortest balanced run of tokens, `$...` such a run that may be empty
    and has no name. Texts may use the names. `after` and `before` add lines beside the matched
    statement, `replace` puts text in the place of what matched, `body` replaces the whole body of
    the function, `rename` replaces identifiers inside what matched. `count` is how often the
    pattern must match: once, or at least once.
    """

    find: str
    after: str | None = None
    before: str | None = None
    replace: str | None = None
    body: str | None = None
    rename: dict[str, str] | None = None
    count: Literal["one", "all"] = "one"


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One form that the faulty function has in the wild. All of its steps must match.

    `needs` are patterns that must match, too, and change nothing (they bind names). `includes` are
    headers that the edit needs, as they are written after `#include`.
    """

    steps: tuple[Step, ...]
    name: str = ""
    needs: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One function to edit. `files` are the places where trees keep it: the first that is there.

    `function` may be qualified (`Layer::backward`); namespaces do not matter. `fixed` are forms of
    a function that is right already, each a list of patterns that all match; the first one is what
    our own edit makes. `unless` are forms that have no such fault (the site does not apply).
    `absent` is what a file without the function means.
    """

    files: tuple[str, ...]
    function: str
    variants: tuple[Variant, ...]
    fixed: tuple[tuple[str, ...], ...] = ()
    unless: tuple[tuple[str, ...], ...] = ()
    absent: Literal["conflict", "not applicable"] = "conflict"


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The edit of a source tree. `leaves` says what of the fault remains after it."""

    sites: tuple[Site, ...]
    advisories: tuple[str, ...] | None = None
    leaves: str = ""


class Patch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One patch. `affected` is a version range (PEP 440) of the project, and only a hint.

    `kernels` are registry names (`aten::native_dropout.out`), `ops` the ATen names of calls that
    are right with the patch, `advisories` the known faults that it mends.
    """

    id: str
    title: str
    affected: str
    wrong: str
    cost: str
    project: str = "executorch"
    advisories: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    source: Source | None = None
    folder: str = ""

    @property
    def kernel(self) -> Path | None:
        """The patch's own kernel, `kernel.cpp`, or None."""
        path = Path(self.folder) / "kernel.cpp"
        return path if path.is_file() else None

    @property
    def source_advisories(self) -> tuple[str, ...]:
        """The known faults that the edit of the source mends."""
        if self.source is None:
            return ()
        return self.advisories if self.source.advisories is None else self.source.advisories


@lru_cache(maxsize=1)
def all_patches() -> tuple[Patch, ...]:
    """Every patch, in order of id. Raises UsageError naming the file and the key at fault."""
    return read_patches(patches_dir())


def read_patches(folder: Path) -> tuple[Patch, ...]:
    """The patches described in `folder`, in order of id. Raises UsageError, also without any."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", "name the folder that holds ID/patch.yaml")
    if not any(folder.glob("*/patch.yaml")):
        raise UsageError(
            f"{folder} describes no patch", "a patch is described in a file ID/patch.yaml"
        )
    return tuple(load_patch(path) for path in sorted(folder.glob("*/patch.yaml")))


def patch_by_id(patch_id: str) -> Patch | None:
    """The patch with this id, or None."""
    return next((patch for patch in all_patches() if patch.id == patch_id), None)


def load_patch(path: Path) -> Patch:
    """Read one description strictly: unknown keys, wrong types and wrong versions are errors.

    Raises UsageError with the name of the file, the key and what is wrong.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        patch = msgspec.convert(
            yaml.load(path.read_text(encoding="utf-8"), Loader=loader), Patch, strict=True
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise _unusable(path, " ".join(str(error).split())) from error
    if patch.id != path.parent.name:
        raise _unusable(path, f"its id is {patch.id!r}, which must be the name of its folder")
    try:
        SpecifierSet(patch.affected)
    except InvalidSpecifier as error:
        raise _unusable(path, f"affected: {patch.affected!r} is no version range") from error
    if patch.folder:
        raise _unusable(path, "folder is not for a file to say")
    for site in patch.source.sites if patch.source else ():
        _check(site, path)
    words = {key: " ".join(getattr(patch, key).split()) for key in ("wrong", "cost")}
    return msgspec.structs.replace(patch, folder=str(path.parent), **words)


def _check(site: Site, path: Path) -> None:
    where = f"site {site.function}"
    if not (site.files and site.variants and site.fixed):
        raise _unusable(path, f"{where} needs at least one file, variant and fixed form")
    for name in site.files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise _unusable(path, f"{where}: {name} leaves the tree")
    for variant in site.variants:
        if not variant.steps:
            raise _unusable(path, f"{where}: a variant without steps")
        for step in variant.steps:
            given = (step.after, step.before, step.replace, step.body, step.rename)
            if sum(value is not None for value in given) != 1:
                raise _unusable(
                    path, f"{where}: a step is one of after, before, replace, body and rename"
                )


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"the patch {path.parent.name} cannot be read: {why}.",
        f"Correct {path}, or install graphcheck again.",
    )
