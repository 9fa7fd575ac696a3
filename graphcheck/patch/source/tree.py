"""A source tree: which project it is, which version, and its files, never one outside of it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from graphcheck.errors import UsageError
from graphcheck.resources import patches_dir

__all__ = ["OutsideTree", "Project", "Tree", "open_tree", "read_projects"]


class _Version(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    pattern: str


class Project(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A project whose trees are known: one of `marks` is there; where its version is written."""

    name: str
    title: str
    marks: tuple[str, ...]
    versions: tuple[_Version, ...] = ()


class OutsideTree(Exception):
    """A path leads out of the tree; the message says which and where to."""


@dataclass(frozen=True)
class Tree:
    """`root` is the resolved folder, `version` what the tree says of itself ("" if nothing)."""

    root: Path
    project: Project
    version: str

    def find(self, names: tuple[str, ...]) -> Path | None:
        """The first of these files that is there, with symbolic links resolved.

        Raises OutsideTree when it leads out of the tree.
        """
        for name in names:
            path = self.root / name
            if path.is_file():
                real = path.resolve()
                if not real.is_relative_to(self.root):
                    raise OutsideTree(f"{name} leads out of the tree, to {real}")
                return real
        return None

    def name_of(self, path: Path) -> str:
        """The path relative to the root, with forward slashes."""
        return path.relative_to(self.root).as_posix()


def read_projects(folder: Path | None = None) -> tuple[Project, ...]:
    """The projects described in `folder`, or shipped. Raises UsageError naming the file."""
    found = []
    for path in sorted((folder or patches_dir() / "projects").glob("*.yaml")):
        try:
            project = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Project)
            for version in project.versions:
                re.compile(version.pattern)
        except (OSError, ValueError, yaml.YAMLError, re.error) as error:
            why = " ".join(str(error).split())
            raise UsageError(f"the project {path.name} cannot be read: {why}.") from error
        found.append(project)
    return tuple(found)


def open_tree(source: Path, projects: tuple[Project, ...]) -> Tree:
    """The tree at `source`; it needs no git. Raises UsageError when it is none that is known."""
    if not source.is_dir():
        raise UsageError(
            f"--source {source} is no folder.", "Give the top folder of the source tree."
        )
    root = source.resolve()
    for project in projects:
        if any((root / mark).exists() for mark in project.marks):
            if not os.access(root, os.R_OK | os.X_OK):
                break
            return Tree(root, project, _version(root, project))
    known = ", ".join(project.title for project in projects)
    raise UsageError(
        f"--source {source} is no source tree that is known here ({known}).",
        "Give its top folder: the one that has"
        f" {' or '.join(project.marks[0] for project in projects)}.",
    )


def _version(root: Path, project: Project) -> str:
    for place in project.versions:
        try:
            text = (root / place.file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found = re.search(place.pattern, text)
        if found:
            return found[1]
    return ""
