"""Damages a program in many ways, and says what the reader makes of it.

Run as a script in a child process, which may use `MEMORY` bytes of address space and no more:
`python mutations.py SEED COUNT FILE...` prints the outcomes as JSON.
"""

from __future__ import annotations

import collections
import functools
import json
import math
import random
import resource
import struct
import sys
import time
from pathlib import Path

MEMORY = 400 << 20
_EDGES = (0, 1, 2, 3, 4, 7, 8, 127, 255, 256, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_HEADER = 40


def mutated(original: bytes, rng: random.Random) -> bytes:
    """Mostly behind the header, so that more than "truncated" is seen."""
    data = bytearray(original)
    low = _HEADER if rng.random() < 0.9 else 0
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(low, len(data) - 8)
        kind = rng.choice(("bit", "byte", "edge", "edge", "offset", "copy", "cut", "grow"))
        if kind == "bit":
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "byte":
            data[at] = rng.randrange(256)
        elif kind == "edge":
            struct.pack_into("<I", data, at & ~3, rng.choice(_EDGES))
        elif kind == "offset":
            # To somewhere in the file, itself included: tables in tables, cycles.
            struct.pack_into("<I", data, at & ~3, rng.randrange(len(data)))
        elif kind == "copy":
            source = rng.randrange(low, len(data) - 8)
            data[at : at + 8] = data[source : source + 8]
        elif rng.random() < 0.2:
            size = rng.choice((1, 4, 64))
            if kind == "grow":
                data[at:at] = bytes(size)
            elif len(data) > 2 * _HEADER + size:
                del data[at : at + size]
    return bytes(data)


@functools.lru_cache(maxsize=1)
def known_opset():
    from graphcheck.opset.load import load

    return load("executorch-1.5.1")


def outcome(data: bytes) -> str:
    """`program`, `refused` with its sentence, or the name of an error that must not be."""
    from graphcheck.artefacts.calls import graph_of
    from graphcheck.artefacts.facts import facts_of
    from graphcheck.artefacts.memory import memory_of
    from graphcheck.artefacts.oplist import operators_of
    from graphcheck.errors import ModelError
    from graphcheck.graph.pte import read_pte

    try:
        program = read_pte(data)
    except ModelError as error:
        one = error.message.startswith("the program is ") and "\n" not in error.message
        return "refused" if one else "refused in other words"
    graph_of(program, known_opset())
    facts_of(program)
    operators_of(program, "x.pte")
    for method in program.methods:
        memory_of(program, method)
    return "program"


def _peak_mb() -> float:
    """Of this program alone: getrusage tells what the process was before it was this program."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return math.inf


def main(seed: int, count: int, files: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng = random.Random(seed)
    originals = [Path(file).read_bytes() for file in files]
    outcomes: collections.Counter[str] = collections.Counter()
    errors: list[str] = []
    start, slowest = time.process_time(), 0.0
    for number in range(count):
        data = mutated(rng.choice(originals), rng)
        before = time.process_time()
        try:
            outcomes[outcome(data)] += 1
        except BaseException as error:
            outcomes["error"] += 1
            errors.append(f"mutation {number} of seed {seed}: {type(error).__name__}: {error}")
        slowest = max(slowest, time.process_time() - before)
    print(
        json.dumps(
            {
                "outcomes": outcomes,
                "errors": errors[:5],
                "seconds": time.process_time() - start,
                "slowest": slowest,
                "peak_mb": _peak_mb(),
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
