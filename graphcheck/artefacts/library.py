"""What of a program's findings the kernel library mends: `graphcheck patch build`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from graphcheck.patch.description import Patch, all_patches
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["build_command", "with_library"]

_KIND = "patch"
_FOLDER = "kernels"
_FILE = f"{_FOLDER}/libgraphcheck_kernels.so"


def with_library(finding: Finding, kernels: Mapping[str, str], release: str = "") -> Finding:
    """The finding with the patches that bring the kernels of its instructions.

    `kernels` maps nodes to the kernels that they call. `release` is the version of the executorch
    that the library is for, "" for the installed one.
    """
    if finding.family not in ("GC1", "GC3") or finding.mitigated:
        return finding
    needed = {kernels[node] for node in finding.nodes if node in kernels}
    patches = [patch for patch in all_patches() if _brings(patch, finding, needed)]
    against = (
        f", built against the sources or an install of executorch {release}" if release else ""
    )
    told = f"a library with this kernel{against}, which --kernel-library {_FILE} names then"
    mends = [Mend(_KIND, patch.id, told, True, _command([patch.id], release)) for patch in patches]
    return replace(finding, mends=(*finding.mends, *mends)) if mends else finding


def build_command(findings: Iterable[Finding], release: str = "") -> str:
    """What builds the kernels that a program needs, "" unless that mends all that is wrong.

    `release` as in `with_library`: a tree of another one has to be named.
    """
    bad = [finding for finding in findings if finding.severity is not Severity.NOTE]
    named = [[mend.name for mend in finding.mends if mend.kind == _KIND] for finding in bad]
    if not all(named) or not any(finding.family == "GC1" for finding in bad):
        return ""
    return _command(sorted({name for names in named for name in names}), release)


def _brings(patch: Patch, finding: Finding, needed: set[str]) -> bool:
    """A missing kernel is any that has its name; what mends a wrong one knows its advisory."""
    if patch.kernel is None or not needed or not needed.issubset(patch.kernels):
        return False
    return finding.family != "GC3" or finding.advisory in patch.advisories


def _command(names: Iterable[str], release: str) -> str:
    ops = " ".join(f"--op {name}" for name in names)
    tree = f" --target DIR_OF_EXECUTORCH_{release}" if release else ""
    return f"graphcheck patch build {ops}{tree} -o {_FOLDER}"
