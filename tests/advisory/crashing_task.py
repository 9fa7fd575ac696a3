"""A stand-in for the child that probes: what each probe does is in its name."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from graphcheck.advisory.task import RESULT, STARTING
from graphcheck.worker import progress


def run_probes(request: dict[str, Any]) -> int:
    behaviour = msgspec.json.decode(os.environ["BEHAVIOUR"])
    if behaviour.get("start") == "crash":
        os.abort()
    progress("loading the runtime for probes")
    for name in request["names"]:
        progress(STARTING + name)
        how = behaviour.get(name, "wrong")
        if how == "crash":
            os.abort()
        if how == "exit":
            os._exit(3)
        if how == "hang":
            time.sleep(600)
        if how == "watchdog":
            print("Timeout (0:01:00)!", flush=True)
            os._exit(1)
        if how == "memory":
            raise MemoryError("no room")
        told = {"name": name, "outcome": how, "figure": f"{name} measured", "detail": ""}
        progress(RESULT + msgspec.json.encode(told).decode())
    return len(request["names"])
