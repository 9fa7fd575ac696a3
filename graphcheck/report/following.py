"""What to type after a report or a verdict: the command that helps with what it says."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphcheck.rules.types import Finding
    from graphcheck.validate.types import Verdict


__all__ = ["asked_rewrites", "program_name", "repeated", "verdict_next_command"]

_OP = re.compile(r"\b(aten\.\w+)")
_TIMED_OUT = re.compile(r" was stopped while training .*: no end after (?P<seconds>[\d.e+]+) s")
_RATE = re.compile(r"learning rate (?P<rate>[^\s,]+)")


def program_name(target: str) -> str:
    """The program that a target is exported to, quoted: `net.pte` of `pkg/net.py`, `lib:net`."""
    name = os.path.basename(target.removesuffix(".py").removesuffix(".pt2"))
    return shlex.quote(f"{re.split(r'[:.]', name)[-1] or 'model'}.pte")


def asked_rewrites(findings: Iterable[Finding]) -> str:
    """Options of export for the exact rewrites that it makes only when asked: ` --rewrite NAME`.

    Which those are, and their names, the commands of the mends tell.
    """
    names: dict[str, None] = {}
    for finding in findings:
        for mend in finding.mends:
            words = shlex.split(mend.command)
            if mend.exact and mend.kind == "rewrite" and "--rewrite" in words:
                names.setdefault(words[words.index("--rewrite") + 1])
    return "".join(f" --rewrite {shlex.quote(name)}" for name in names)


def repeated(command: str, target: str, again: str) -> str:
    """The command with the options that describe the target after it, where it is quoted."""
    place = f" {shlex.quote(target)}"
    if not again or place not in f"{command} ":
        return command
    before, _, after = command.partition(place)
    return f"{before}{place} {again}{after}" if after[:1] in ("", " ") else command


def verdict_next_command(verdict: Verdict, again: str = "") -> str:
    """What to type after this verdict, "" after a match; `again` are the target's options."""
    if verdict.reproducer:
        return ""
    if verdict.next_command:
        return verdict.next_command
    return repeated(_following(verdict), verdict.target, again)


def _following(verdict: Verdict) -> str:
    target = shlex.quote(verdict.target)
    lost = [device for device in verdict.devices if device.lost]
    if lost and len(lost) == len(verdict.devices):
        alone = all(device.name == "host" for device in lost)
        return "graphcheck doctor" if alone else f"graphcheck validate {target} --on host"
    if lost and verdict.required and verdict.verdict in ("match", "drift"):
        return "graphcheck device list"
    if verdict.verdict == "match":
        return ""
    if _rewritten(verdict):
        return f"graphcheck export {target} -o {program_name(verdict.target)}"
    late = _TIMED_OUT.search(verdict.reason)
    if verdict.verdict == "not run" and late:
        return f"graphcheck validate {target} --timeout {2 * float(late['seconds']):g} --steps 20"
    if verdict.verdict == "not run" and verdict.losses:
        if not math.isfinite(verdict.losses[0]) or "not finite at step 0 in" in verdict.reason:
            # Nothing that is trained can be meant by the example inputs.
            return f"graphcheck validate {target} --data FILE.npz"
        rate = _RATE.search(verdict.optimizer)
        if rate and not all(map(math.isfinite, verdict.losses)):
            return f"graphcheck validate {target} --learning-rate {float(rate['rate']) / 10:g}"
    if verdict.verdict in ("diverged", "drift") and not _blamed(verdict):
        return f"graphcheck validate {target} --shadow"
    return f"graphcheck check {target}"


def _blamed(verdict: Verdict) -> bool:
    """Whether an instruction is named, or shadow execution looked at all and found none."""
    return bool(verdict.stale or verdict.wrong or verdict.first_wrong or verdict.shadow_checked)


def _rewritten(verdict: Verdict) -> bool:
    """Whether lowering failed at ops that all have a rewrite, which export makes."""
    from graphcheck.rewrite.interface import all_rewrites

    failed = next((stage for stage in verdict.stages if stage.outcome == "fail"), None)
    if failed is None or failed.name != "lower":
        return False
    ops = set(_OP.findall(failed.detail))
    return bool(ops) and ops <= {rewrite.op.rpartition(".")[0] for rewrite in all_rewrites()}
