"""A target that is not the runtime which trains."""

from __future__ import annotations

from graphcheck.opset.load import elsewhere, load

__all__ = ["not_the_target"]


def not_the_target(target: str | None) -> tuple[str, ...]:
    """A note where the target that was named did not run. Raises UsageError for an unknown one."""
    if not target:
        return ()
    opset = load(target)
    if not elsewhere(opset):
        return ()
    return (
        f"{opset.runtime} {opset.version} was NOT CHECKED: the steps ran in the installed runtime",
    )
