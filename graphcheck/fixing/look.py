"""The half of `fix` that needs the live model: check it, and decide. Runs in a child process."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from graphcheck.fixing.owned import is_own
from graphcheck.fixing.types import Decision, FixOptions, Look
from graphcheck.graph.construction import Constructions
from graphcheck.graph.types import Source
from graphcheck.opset.swaps import SwapEntry, swap_catalogue
from graphcheck.rules.types import Finding, Severity
from graphcheck.swap.interface import Pick, all_swaps, parse_picks
from graphcheck.swap.live import replacement, torch_kind
from graphcheck.workload.types import Workload

__all__ = ["look", "look_task"]

_WORDS = {"numerics": "changes numerics", "function": "changes the function"}


def look_task(request: dict[str, Any]) -> Look:
    """Worker task: load, check, decide."""
    from graphcheck.worker import progress
    from graphcheck.workload.load import load
    from graphcheck.workload.request import WorkloadRequest

    options = msgspec.convert(request, FixOptions)
    progress(f"loading {options.target}")
    workload = load(
        WorkloadRequest(
            target=options.target,
            inputs=options.inputs,
            loss=options.loss or "",
            dynamic_batch=options.dynamic_batch,
            num_classes=options.num_classes,
        )
    )
    return look(workload, options)


def look(workload: Workload, options: FixOptions) -> Look:
    """Check a workload and decide what to do about each finding."""
    from graphcheck.pipeline import check_workload

    # Before the check: tracing must not have touched the model.
    loss, gradient = _measure(workload)
    report = check_workload(workload, options)
    if report.failed:
        return Look(report, file=workload.file)
    root = workload.module
    if workload.prefix:
        root = root.get_submodule(workload.prefix.rstrip("."))
    file = os.path.abspath(workload.file) if workload.file else ""
    decider = _Decider(root, file, options)
    decisions = tuple(decider.decide(report.findings))
    return Look(report, decisions, loss, gradient, file)


class _Decider:
    def __init__(self, root: Any, file: str, options: FixOptions) -> None:
        self.root = root
        self.file = file
        self.options = options
        self.picks = parse_picks(options.swaps)
        self.places = Constructions(root)
        self.modules = dict(root.named_modules(remove_duplicate=False))
        self.decided: set[str] = set()
        self.wholes: dict[tuple[Pick, str], dict[str, tuple[str, str]]] = {}

    def decide(self, findings: tuple[Finding, ...]) -> Iterator[Decision]:
        for finding in findings:
            if finding.family not in ("GC1", "GC2", "GC3") or finding.severity is Severity.NOTE:
                continue
            for place in finding.places or (finding.source,):
                if place.module:
                    yield self._one(finding, place)
                else:
                    yield from self._lost(finding, place)
        for pick in self.picks:
            yield from self._asked(pick)

    def _one(self, finding: Finding, place: Source) -> Decision:
        base = Decision(
            finding.code,
            finding.subject,
            place.module,
            "skip",
            rewritten=any(m.kind in ("rewrite", "layout") and m.exact for m in finding.mends),
        )
        entries = [e for e in swap_catalogue().values() if finding.subject in e.ops]
        module = self.modules.get(place.module)
        kind = torch_kind(module) if module is not None else ""
        if any(kind in entry.modules for entry in swap_catalogue().values()):
            fitting = [entry for entry in entries if kind in entry.modules]
            allowed, reason = self._allowed(fitting, f"no swap of {kind} mends {finding.subject}")
            if not allowed:
                return _with(base, reason=reason)
            return self._module(base, place.module, module, allowed)
        return self._function(base, place, [entry for entry in entries if entry.functions])

    def _lost(self, finding: Finding, place: Source) -> Iterator[Decision]:
        """A finding that lost its origin may come from any module that a swap for it fits."""
        entries = [e for e in swap_catalogue().values() if finding.subject in e.ops]
        kinds = {kind for entry in entries for kind in entry.modules}
        paths = [path for path, module in self.root.named_modules() if torch_kind(module) in kinds]
        for path in paths:
            if path not in self.decided:
                yield self._one(finding, replace(place, module=path))
        if not paths:
            decision = self._one(finding, replace(place, module="forward", file="", line=0))
            yield _with(decision, form="skip", reason="its origin in the model is not known")

    def _allowed(self, entries: list[SwapEntry], none: str) -> tuple[list[Pick], str]:
        """Picks to try in order; without any, why not."""
        if not entries:
            return [], none
        if self.picks:
            allowed = [p for p in self.picks if p.name in {entry.name for entry in entries}]
            names = " or ".join(entry.name for entry in entries)
            return allowed, f"not picked (--swap {names} would mend it)"
        allowed = [
            Pick(entry.name)
            for entry in entries
            # Those that are asked for elsewhere are proven here by the loss before and after.
            if entry.exact or (self.options.unsafe and not entry.asked)
        ]
        told = ", ".join(
            f"{entry.name} {_WORDS.get(entry.change, 'must be asked for')}"
            for entry in entries
            if not entry.exact
        )
        return allowed, f"{told} (--unsafe-fixes, or --swap NAME)"

    def _module(self, base: Decision, path: str, module: Any, picks: list[Pick]) -> Decision:
        self.decided.add(path)
        reasons: list[str] = []
        # In the order of make_trainable: first those that change several modules at once.
        for whole in picks:
            if all_swaps()[whole.name].whole is not None:
                what, why = self._whole(whole, "").get(path, ("", "it does not fit this module"))
                if not why:
                    return self._together(base, path, whole, what)
                reasons.append(f"{whole.name}: {why}")
        _, pick, what = replacement(copy.deepcopy(module), picks)
        if pick is None:
            others = self._other_words(torch_kind(module), picks)
            return _with(base, reason="; ".join([*reasons, *([what] if what else [])]) + others)
        swap = all_swaps()[pick.name]
        made = _with(
            base,
            swap=str(pick),
            change=swap.entry.change,
            what=what,
            names=(torch_kind(module),),
            anchors=self._anchors(path),
        )
        file, line = self.places.locate(path)
        if swap.source is not None and line and is_own(file, self.file):
            misfit = self._misfit(file, line, torch_kind(module), pick)
            if misfit:
                return _with(made, form="skip", reason=misfit)
            return _with(made, form="constructor", file=os.path.abspath(file), line=line)
        return self._call(made, path)

    def _whole(self, pick: Pick, holder: str) -> dict[str, tuple[str, str]]:
        """What a swap of several modules does in the module `holder` alone, and why not, by path
        from the root."""
        if (pick, holder) not in self.wholes:
            swap = all_swaps()[pick.name]
            assert swap.whole is not None
            module = copy.deepcopy(self.root.get_submodule(holder))
            self.wholes[pick, holder] = {
                f"{holder}.{path}".strip("."): (what, why)
                for path, what, why in swap.whole(module, pick.argument, _every)
            }
        return self.wholes[pick, holder]

    def _together(self, base: Decision, path: str, pick: Pick, what: str) -> Decision:
        """A swap of several modules: the call must be around what holds them all."""
        swap = all_swaps()[pick.name]
        made = _with(base, swap=str(pick), change=swap.entry.change, what=what)
        if swap.statement is not None and self.file:
            return _with(made, form="statement", file=self.file)
        return self._call(made, path, pick)

    def _other_words(self, kind: str, tried: list[Pick]) -> str:
        names = {pick.name for pick in tried}
        others = [
            f"{entry.name} {_WORDS[entry.change]}"
            for entry in swap_catalogue().values()
            if kind in entry.modules
            and entry.name not in names
            and not entry.exact
            and not self.picks
        ]
        return f"; {', '.join(others)} (--unsafe-fixes, or --swap NAME)" if others else ""

    def _misfit(self, file: str, line: int, kind: str, pick: Pick) -> str:
        """Why another module that the same line makes forbids an edit of it."""
        for path, module in self.modules.items():
            if torch_kind(module) != kind or self.places.locate(path) != (file, line):
                continue
            _, fits, why = replacement(copy.deepcopy(module), [pick])
            if fits is None:
                return f"the same line makes {path}, and {why}"
        return ""

    def _call(self, made: Decision, path: str, whole: Pick | None = None) -> Decision:
        """A call of make_trainable around the model, or around what holds the module."""
        if not self.file:
            return _with(made, form="skip", reason="there is no file of yours to edit")
        return _with(made, form="call", anchors=self._anchors(path, whole))

    def _anchors(self, path: str, whole: Pick | None = None) -> tuple[int, ...]:
        """Lines that make what holds the module, and all that the swap `whole` changes with it."""
        parts = path.split(".")
        holders = [".".join(parts[:d]) for d in range(len(parts), 0, -1)]
        if whole is not None:
            nothing = ("", "not found")
            holders = [h for h in holders if not self._whole(whole, h).get(path, nothing)[1]]
        places = [self.places.locate(holder) for holder in holders]
        target = os.path.realpath(self.file) if self.file else ""
        lines = [line for file, line in places if line and os.path.realpath(file) == target]
        return tuple(dict.fromkeys(lines))

    def _function(self, base: Decision, place: Source, entries: list[SwapEntry]) -> Decision:
        subject = base.subject
        allowed, reason = self._allowed(entries, f"no swap mends {subject} here")
        if not allowed:
            return _with(base, reason=reason)
        pick = allowed[0]
        swap = all_swaps()[pick.name]
        if not place.line or not is_own(place.file, self.file):
            where = f" ({place.file}:{place.line})" if place.line else ""
            return _with(base, reason=f"the call is not in a file of yours{where}")
        return _with(
            base,
            form="function",
            swap=str(pick),
            change=swap.entry.change,
            names=swap.entry.functions,
            what=swap.entry.into,
            file=os.path.abspath(place.file),
            line=place.line,
        )

    def _asked(self, pick: Pick) -> Iterator[Decision]:
        """A pick on modules that no finding names."""
        swap = all_swaps()[pick.name]
        asked = "asked for"
        if swap.whole is not None:
            for path, (what, why) in self._whole(pick, "").items():
                if path in self.decided:
                    continue
                base = Decision("", asked, path, "skip", str(pick), swap.entry.change)
                yield (
                    _with(base, what=what, reason=why)
                    if why
                    else self._together(base, path, pick, what)
                )
            return
        for path, module in self.root.named_modules():
            if torch_kind(module) not in swap.entry.modules or path in self.decided:
                continue
            decision = self._module(Decision("", asked, path, "skip"), path, module, [pick])
            if pick.name == "relu-out-of-place" and "it is not in place" in decision.reason:
                continue
            yield decision


def _every(path: str) -> bool:
    return True


def _with(decision: Decision, **changes: Any) -> Decision:
    return replace(decision, **changes)


def _measure(workload: Workload) -> tuple[float | None, float | None]:
    """Loss and gradient norm of one pass in eval mode; None for a pass that is random or fails."""
    import torch

    model = copy.deepcopy(workload.module).eval()
    found: list[tuple[float, float]] = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        model.zero_grad()
        try:
            output = model(*copy.deepcopy(workload.inputs), **copy.deepcopy(workload.kwargs))
            loss = output[0] if isinstance(output, (tuple, list)) else output
            loss.backward()
        except Exception:  # the check says what is wrong with the model
            return None, None
        norms = [float(p.grad.norm()) for p in model.parameters() if p.grad is not None]
        found.append((float(loss.detach()), sum(norm**2 for norm in norms) ** 0.5))
    return found[0] if found[0] == found[1] else (None, None)
