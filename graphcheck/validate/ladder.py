"""The ladder of stages a validation climbs: each passes, fails, or is not run with a reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphcheck.validate.types import Stage

__all__ = ["STAGES", "Ladder"]

STAGES = ("export", "joint", "lower", "load", "step", "train", "compare", "stale", "shadow")
"""In order; `step` is the first training step, `train` all of them."""


@dataclass
class Ladder:
    """Outcomes of the stages so far."""

    done: dict[str, Stage] = field(default_factory=dict)

    def passed(self, name: str, seconds: float = 0.0, detail: str = "") -> None:
        self.done[name] = Stage(name, "pass", detail, seconds)

    def failed(self, name: str, detail: str, seconds: float = 0.0) -> None:
        self.done[name] = Stage(name, "fail", detail, seconds)

    def skipped(self, name: str, why: str, seconds: float = 0.0) -> None:
        self.done[name] = Stage(name, "not run", why, seconds)

    def stages(self) -> tuple[Stage, ...]:
        """All stages; one that was never reached is not run because of the first that failed."""
        first = next((name for name in STAGES if self._outcome(name) == "fail"), "")
        why = f"{first} failed" if first else ""
        return tuple(self.done.get(name, Stage(name, "not run", why)) for name in STAGES)

    def _outcome(self, name: str) -> str:
        return self.done[name].outcome if name in self.done else ""
