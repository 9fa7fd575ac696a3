"""Every release of ExecuTorch: its probes, limits and four models, against what graphcheck says.

    python bench/releases.py --environment 1.3.1=SITE[:SITE...] [--environment ...] [--table]

An environment is a list of folders that hold torch, executorch and what they need, for instance
made by `pip install --target SITE executorch==1.3.1`; `1.5.1=` is this interpreter's own. Each is
measured in child processes of their own with these folders first on the path: programs are made by
the exporter of the release, and run by its runtime. Answers go to bench/results/releases.json;
`--table` writes bench/results/releases.md of all answers there, beside what `graphcheck check
--target executorch==VERSION` says of the same models.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
ANSWERS = RESULTS / "releases.json"
MODELS = ("seed_cnn", "avg_pool", "batch_norm", "conv1d", "healthy")
_SECONDS = 900


def items() -> list[str]:
    """What is measured of each release."""
    from releases_cases import CASES

    from graphcheck.advisory.probes.interface import all_probes

    probes = all_probes()
    together = [f"probe:{name}" for name in probes if not probes[name].alone]
    alone = [f"probe:{name}" for name in probes if probes[name].alone]
    limits = [f"limit:{name}:{n}" for name, cases in CASES.items() for n in range(len(cases))]
    return [*(f"model:{name}" for name in MODELS), *together, *limits, *alone]


def measure(version: str, path: str, wanted: list[str]) -> dict[str, Any]:
    """Outcome and figure by item. One that takes its process down is an answer of its own."""
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    found: dict[str, Any] = {}
    about = ""
    left = list(wanted)
    while left:
        ended = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("releases_child.py")), *left],
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        started = ""
        for line in ended.stdout.splitlines():
            if line.startswith("environment "):
                about = line.removeprefix("environment ")
            elif line.startswith("start "):
                started = line.removeprefix("start ")
            elif line.startswith("["):
                item, outcome, figure = json.loads(line)
                found[item] = [outcome, figure]
        if ended.returncode and started not in found:
            if not started:
                raise SystemExit(f"{version}: {ended.stderr[-2000:]}")
            found[started] = ["not run", f"its process ended with code {ended.returncode}"]
        left = [item for item in left if item not in found]
        print(f"{version} ({about}): {len(found)} of {len(wanted)}", flush=True)
    assert not wanted or about.startswith(version), f"{version} was asked for, {about} was found"
    return {"environment": about, "answers": found}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--environment", action="append", default=[], metavar="VERSION=PATH")
    parser.add_argument("--again", action="store_true", help="measure what is known, too")
    parser.add_argument("--only", default="", metavar="PREFIX", help="such as model: or probe:")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "bench")]
    for text in arguments.environment:
        version, _, path = text.partition("=")
        answers = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
        known = {} if arguments.again else answers.get(version, {}).get("answers", {})
        wanted = [item for item in items() if item.startswith(arguments.only)]
        found = measure(version, path, [item for item in wanted if item not in known])
        answers = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
        if known:
            found["answers"] = {**known, **found["answers"]}
            found["environment"] = found["environment"] or answers[version]["environment"]
        answers[version] = found
        ANSWERS.write_text(json.dumps(dict(sorted(answers.items())), indent=1) + "\n")
    if arguments.table:
        from releases_table import table

        (RESULTS / "releases.md").write_text(table(json.loads(ANSWERS.read_text())))


if __name__ == "__main__":
    main()
