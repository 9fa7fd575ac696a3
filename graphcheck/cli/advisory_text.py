"""What the probes of advisories say on this machine, beside what their version ranges say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from graphcheck.advisory.ranges import in_range
from graphcheck.advisory.types import Advisory, ProbeResult
from graphcheck.cli.tables import table
from graphcheck.report.interface import Look

__all__ = ["Answer", "judge", "verify_json", "verify_text"]

SCHEMA = 1
_SAID = {"wrong": "known wrong", "right": "fixed", "not run": "could not run"}


@dataclass(frozen=True)
class Answer:
    """`said` by the probe, `range` by the versions; `disagrees` where they contradict each other.

    `figure` is what was measured, or why nothing was.
    """

    advisory: str
    title: str
    said: str
    range: str
    figure: str
    version: str
    disagrees: bool = False


def judge(advisory: Advisory, result: ProbeResult | None, libraries: Sequence[str] = ()) -> Answer:
    """What the probe says against the version range. A kernel library may mend what is affected."""
    if result is None:
        result = ProbeResult(advisory.id, "not run", detail="it has no probe")
    inside = in_range(advisory, result.version) if result.version else None
    said = _SAID[result.outcome]
    if result.outcome == "right" and not inside:
        said = "right"
    if result.outcome == "right" and libraries and inside:
        said = "fixed by the kernel library"
    disagrees = (result.outcome == "wrong" and inside is not True) or (
        result.outcome == "right" and inside is True and not libraries
    )
    return Answer(
        advisory=advisory.id,
        title=advisory.title,
        said=said,
        range=_range(advisory, inside),
        figure=result.figure or result.detail,
        version=result.version,
        disagrees=disagrees,
    )


def _range(advisory: Advisory, inside: bool | None) -> str:
    if inside:
        return f"affected ({advisory.affected})"
    if inside is False:
        return f"fixed in {advisory.fixed_in}"
    return f"not known (affected: {advisory.affected})"


def verify_json(answers: Sequence[Answer]) -> dict[str, Any]:
    """Plain values of every answer."""
    return {"schema": SCHEMA, "answers": msgspec.to_builtins(answers)}


def verify_text(answers: Sequence[Answer], look: Look) -> str:
    """A table, and a line for each probe that contradicts its version range."""
    rows = [(a.advisory, a.said, a.range, a.figure) for a in answers]
    lines = table(("id", "probe", "version range", "measured"), rows, look).splitlines()
    for answer in answers:
        if answer.disagrees:
            lines.append(
                f"{answer.advisory}: the probe says {answer.said}, the version range says "
                f"{answer.range}; the probe counts."
            )
    counts = {said: sum(a.said == said for a in answers) for said in dict.fromkeys(_order(answers))}
    version = next((a.version for a in answers if a.version), "")
    on = f" on executorch {version}" if version else ""
    lines.append(", ".join(f"{n} {said}" for said, n in counts.items()) + on + ".")
    return "\n".join(lines) + "\n"


def _order(answers: Sequence[Answer]) -> list[str]:
    first = ["known wrong", "fixed", "fixed by the kernel library", "right", "could not run"]
    return sorted((answer.said for answer in answers), key=first.index)
