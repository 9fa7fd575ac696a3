"""`pkg.mod:factory`: anything that can be imported from the working folder."""

from __future__ import annotations

import importlib
import os
import re

from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.seeding import seed_generators
from graphcheck.workload.targets.importing import arguments_hidden, loaded_from, on_path
from graphcheck.workload.targets.interface import Loaded, TargetKind
from graphcheck.workload.user_code import running_user_code

__all__ = ["KIND"]

_FORM = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def _matches(target: str) -> bool:
    found = _FORM.fullmatch(target)
    return (
        found is not None
        and found["module"] != "torchvision"
        and not found["module"].endswith(".py")
        and not os.path.exists(found["module"])
    )


def _load(request: WorkloadRequest) -> Loaded:
    found = _FORM.fullmatch(request.target)
    assert found is not None
    name = found["module"]
    folder = os.getcwd()
    on_path(folder)
    seed_generators(request.seed)
    with (
        running_user_code(
            f"module {name} could not be imported",
            hint=f"Run `python -c 'import {name}'` to see the whole traceback.",
            folder=folder,
        ),
        arguments_hidden(name),
    ):
        module = importlib.import_module(name)
    return loaded_from(module, found["name"], name, folder, request)


KIND = TargetKind(name="module", form="`pkg.mod:factory`", matches=_matches, load=_load)
