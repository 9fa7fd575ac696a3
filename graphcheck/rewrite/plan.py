"""Which nodes to rewrite: those that a finding names, and no others.

An op that the target runtime has, and has right, stays as it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphcheck.errors import UsageError
from graphcheck.graph.trace import MARK
from graphcheck.rewrite.apply import Applied, apply, qualified_name
from graphcheck.rewrite.interface import Rewrite, all_rewrites, rewrites_for
from graphcheck.rules.types import Finding, Severity

__all__ = ["Choice", "Plan", "check_choice", "check_names", "forbidden", "known_rewrite_names"]

_MENDED = ("GC1", "GC2", "GC3", "GC402", "GC403")


@dataclass(frozen=True)
class Choice:
    """What the user asks for: ops or rewrites to use in any case, and ones never to use.

    Entries are names of rewrites, or of ops with or without overload (`aten.sort`). `keep_patched`
    leaves alone what a kernel library runs right, so that the program needs that library, and lets
    rewrites use the kernels of `kernels`, which are registry names.
    """

    always: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    keep_patched: bool = False
    kernels: frozenset[str] = frozenset()

    @property
    def usable(self) -> frozenset[str]:
        """Kernels of a library that rewrites may use."""
        return self.kernels if self.keep_patched else frozenset()

    @property
    def whole(self) -> frozenset[str]:
        """Overloads that a kernel of the library runs whole, so that a trace must not take them
        apart."""
        return frozenset(
            rewrite.op
            for rewrite in all_rewrites()
            if rewrite.kernels
            and self.usable.issuperset(rewrite.kernels)
            and not self.forbids(rewrite)
        )

    def forbids(self, rewrite: Rewrite) -> bool:
        return _names(rewrite, self.never)

    def demands(self, rewrite: Rewrite) -> bool:
        return _names(rewrite, self.always) and not self.forbids(rewrite)


@dataclass
class Plan:
    """Rewrites for one joint graph, from its findings.

    `reasons` maps node names to the finding that asks for the rewrite. With `wide` the loss is
    float64, and float64 is kept throughout.
    """

    choice: Choice = field(default_factory=Choice)
    reasons: dict[str, Finding] = field(default_factory=dict)
    wide: bool = False

    @classmethod
    def of(cls, findings: Iterable[Finding], choice: Choice, *, wide: bool = False) -> Plan:
        """The plan of findings that are not deduplicated."""
        reasons: dict[str, Finding] = {}
        for finding in findings:
            if finding.mitigated and choice.keep_patched:
                continue
            # What a note says of numerics is no reason to touch a graph.
            note = finding.family == "GC4" and finding.severity is Severity.NOTE
            if finding.code.startswith(_MENDED) and not note:
                for node in finding.nodes:
                    reasons.setdefault(node, finding)
        return cls(choice, reasons, wide)

    def rewrite_joint(self, joint: Any) -> tuple[Any, list[Applied]]:
        """The joint program with every planned node rewritten, and what became of each."""
        return apply(joint, self._choose_joint, stage="joint", candidates=self._candidates)

    def rewrite_forward(self, exported: Any, joint: Any) -> tuple[Any, list[Applied]]:
        """The exported program with the ops rewritten that must be before it is differentiated.

        The finding is on a joint node; its mark leads to the exported node. An op that has a
        rewrite of this stage takes it first: its own gradient would not do, either.
        """
        wanted: set[str] = set()
        for node in joint.graph.nodes:
            if node.name in self.reasons:
                mark = (node.meta.get("custom") or {}).get(MARK)
                if mark is not None:
                    wanted.add(mark)

        def choose(node: Any) -> Rewrite | None:
            return self._first(node, "forward", needed=node.name in wanted)

        return apply(exported, choose, stage="forward", candidates=self._forward_candidates)

    def _choose_joint(self, node: Any) -> Rewrite | None:
        return self._first(node, "joint", needed=node.name in self.reasons)

    def _first(self, node: Any, stage: str, *, needed: bool) -> Rewrite | None:
        for rewrite in self._of_stage(qualified_name(node.target), stage):
            widens = self.wide and rewrite.widens and _makes_float64(node)
            if needed or widens or self.choice.demands(rewrite):
                return rewrite
        return None

    def _of_stage(self, op: str, stage: str) -> tuple[Rewrite, ...]:
        return tuple(
            rewrite
            for rewrite in rewrites_for(op, self.choice.usable, asked=True)
            if rewrite.stage == stage
            and not self.choice.forbids(rewrite)
            and (not rewrite.only_asked or self.choice.demands(rewrite))
        )

    def _candidates(self, op: str) -> tuple[Rewrite, ...]:
        return self._of_stage(op, "joint")

    def _forward_candidates(self, op: str) -> tuple[Rewrite, ...]:
        return self._of_stage(op, "forward")


def _makes_float64(node: Any) -> bool:
    import torch

    values = node.meta.get("val")
    first = values[0] if isinstance(values, (tuple, list)) else values
    return isinstance(first, torch.Tensor) and first.dtype == torch.float64


def _names(rewrite: Rewrite, entries: Iterable[str]) -> bool:
    op_without_overload = rewrite.op.rpartition(".")[0]
    return any(
        entry in (rewrite.name, rewrite.op, op_without_overload, f"aten.{rewrite.name}")
        or f"aten.{entry}" == op_without_overload
        for entry in entries
    )


def check_names(option: str, entries: Iterable[str]) -> None:
    """Raises UsageError for an entry of `--rewrite` or `--no-rewrite` that names no rewrite."""
    for entry in entries:
        if not any(_names(rewrite, (entry,)) for rewrite in all_rewrites()):
            known = {name for pair in known_rewrite_names().items() for name in pair}
            bare = entry.removeprefix("aten.")
            near = [name for name in sorted(known) if bare and bare in name]
            near = (near or difflib.get_close_matches(entry, sorted(known)))[:3]
            raise UsageError(
                f"{option}: there is no rewrite for {entry}",
                f"did you mean {', '.join(near)}?"
                if near
                else f"rewrites are {', '.join(sorted(known_rewrite_names()))}; the op of one is "
                "taken, too",
            )


def check_choice(always: Sequence[str], never: Sequence[str]) -> None:
    """Check `--rewrite` and `--no-rewrite`. Raises UsageError for a name that is unknown or that
    stands in both."""
    check_names("--rewrite", always)
    check_names("--no-rewrite", never)
    for entry in always:
        wanted = [rewrite for rewrite in all_rewrites() if _names(rewrite, (entry,))]
        against = next((n for n in never if all(_names(r, (n,)) for r in wanted)), None)
        if against is not None:
            raise UsageError(
                f"--rewrite {entry} and --no-rewrite {against} contradict each other",
                "leave one of the two out",
            )


def forbidden(findings: Iterable[Finding], choice: Choice) -> tuple[str, ...]:
    """Entries of `--no-rewrite` that forbid a rewrite which these findings offer."""
    offered = {m.name for f in findings for m in f.mends if m.kind == "rewrite"}
    rewrites = [rewrite for rewrite in all_rewrites() if rewrite.name in offered]
    return tuple(e for e in choice.never if any(_names(r, (e,)) for r in rewrites))


def known_rewrite_names() -> Mapping[str, str]:
    """Names that `--rewrite` and `--no-rewrite` take, each with its op."""
    return {rewrite.name: rewrite.op for rewrite in all_rewrites()}
