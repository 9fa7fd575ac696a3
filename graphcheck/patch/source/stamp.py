"""The stamp of a patched tree: what a build made from it has right, for `check --stamp`."""

from __future__ import annotations

import json

from graphcheck.errors import UsageError
from graphcheck.opset.stamp import STAMP_SCHEMA
from graphcheck.patch.source.manifest import sha256
from graphcheck.patch.source.run import Outcome
from graphcheck.patch.source.states import State

__all__ = ["stamp_of"]

_GOOD = (State.APPLIED, State.FIXED)


def stamp_of(outcome: Outcome) -> str:
    """The stamp as JSON: the patches that are there, the faults they mend, and the files' hashes.

    Raises UsageError when no patch is applied and nothing is right.
    """
    good = [state for state in outcome.states if state.state in _GOOD]
    if not good:
        raise UsageError(
            f"There is nothing to stamp: no patch fits {outcome.tree.root}.",
            "Name the top folder of an ExecuTorch source tree with --source.",
        )
    patches = [
        {
            "id": state.patch.id,
            "state": state.state.value,
            "advisories": list(state.patch.source_advisories),
            "files": {
                path: sha256((outcome.tree.root / path).read_bytes()) for path in state.files
            },
        }
        for state in good
    ]
    body = {
        "schema": STAMP_SCHEMA,
        "project": outcome.tree.project.name,
        "version": outcome.tree.version,
        "patches": patches,
    }
    return json.dumps(body, indent=2) + "\n"
