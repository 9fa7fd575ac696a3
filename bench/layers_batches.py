"""One-op graphs, many in a child process: torch is imported once a batch, a crash costs one case.

Used by `layers_measure.py`, `layers_exported.py` and `shadow_layers.py`. A case that takes its
process down, or does not end, is an answer; the batch goes on after it. The output file holds one
row a case (`.jsonl`: one line) and is written after each: a run that was ended goes on where it
was.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from layers_static import load_cases

Measure = Callable[[dict[str, Any]], dict[str, Any]]


def run_batch(measure: Measure, folder: Path, names: Sequence[str], seconds: int) -> None:
    """The child: one JSON line a case; a case that does not end is ended with the process."""
    import torch

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cases = {f"{case['group']}/{case['name']}": case for case in load_cases(folder)[0]}
    for name in names:
        signal.alarm(seconds)
        start = time.monotonic()
        try:
            with contextlib.redirect_stdout(sys.stderr):
                row = measure(cases[name])
        except Exception as error:
            row = {"outcome": "not measured", "reason": f"{type(error).__name__}: {error}"[:400]}
        row["seconds"] = round(time.monotonic() - start, 1)
        signal.alarm(0)
        answers.write(json.dumps({"name": name, **row}) + "\n")
        answers.flush()


class Rows:
    """The rows of an output file, by case; of several lines for one case the last counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.rows: dict[str, Any] = {}
        if path.is_file() and path.suffix == ".jsonl":
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.rows[row.pop("name")] = row
        elif path.is_file():
            self.rows = json.loads(path.read_text())

    def add(self, name: str, row: dict[str, Any]) -> None:
        with self.lock:
            self.rows[name] = row
            if self.path.suffix == ".jsonl":
                with self.path.open("a") as stream:
                    stream.write(json.dumps({"name": name, **row}) + "\n")
            else:
                draft = self.path.with_suffix(".tmp")
                draft.write_text(json.dumps(self.rows, indent=1, sort_keys=True) + "\n")
                draft.replace(self.path)
            print(f"{len(self.rows):4d} {name}: {row['outcome']}", file=sys.stderr, flush=True)


def run_all(
    script: str,
    cases: Path,
    rows: Rows,
    names: Sequence[str],
    batch: int,
    jobs: int,
    seconds: int,
    words: Sequence[str] = (),
) -> None:
    """Have `script` measure `names` (as its `--case` options), `batch` of them in a process.

    `words` are further words of its command line.
    """
    batches = [names[at : at + batch] for at in range(0, len(names), batch)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda some: _batch(script, cases, rows, some, seconds, words), batches))


def _batch(
    script: str, cases: Path, rows: Rows, names: Sequence[str], seconds: int, words: Sequence[str]
) -> None:
    """Run `names` in child processes until each has an answer."""
    left = list(names)
    while left:
        command = [sys.executable, script, str(cases), "--seconds", str(seconds), *words]
        for name in left:
            command += ["--case", name]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                row = json.loads(line)
                name = row.pop("name")
                rows.add(name, row)
                left.remove(name)
        if left:
            late = child.returncode == -signal.SIGALRM
            reason = f"no end after {seconds} s" if late else f"exit code {child.returncode}"
            rows.add(left.pop(0), {"outcome": "hang" if late else "crash", "reason": reason})
