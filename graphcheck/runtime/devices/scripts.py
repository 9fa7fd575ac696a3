"""Scripts for the shell of a board. What goes into them is ours, and quoted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

__all__ = ["MARK", "TRAILER", "ask_script", "link_lines", "quoted", "run_script"]

MARK = "graphcheck:"
"""Goes before an answer: a shell may greet first."""
TRAILER = "graphcheck-exit:"
"""Goes before the exit code where a link has one channel only."""


def quoted(text: str) -> str:
    """One word of a script."""
    return shlex.quote(text)


def ask_script(root: str) -> str:
    """Makes the cache folder, removes what a broken run left a day ago, and tells the facts."""
    return f"""c={root}
mkdir -p "$c/files" "$c/jobs" || exit 71
cd "$c" && c=$PWD || exit 71
find jobs -mindepth 1 -maxdepth 1 -mmin +1440 -exec rm -rf {{}} + 2>/dev/null
find files -name ".part-*" -mmin +1440 -exec rm -f {{}} + 2>/dev/null
f=$(df -Pk . 2>/dev/null | (read -r _; read -r _ _ _ free _; echo "$free"))
s=
for d in /sys/devices/system/cpu/cpu[0-9]*; do
read -r v 2>/dev/null <"$d/cpufreq/cpuinfo_max_freq" && s="$s ${{d##*/cpu}}:$v"
done
echo "{MARK}$(uname -s)|$(uname -m)|$c|$f|$s"
"""


def link_lines(folder: str, digests: Mapping[str, str]) -> list[str]:
    """Lines that make a job's folder with links to files of the cache."""
    links = [
        f"ln -s ../../files/{d} {quoted(f'{folder}/{name}')} || exit 71"
        for name, d in digests.items()
    ]
    return [f"mkdir {quoted(folder)} || exit 71", *links]


def run_script(folder: str, before: Sequence[str], mixed: bool) -> str:
    """Runs the request with the trace on standard output, and removes the folder at its end.

    The standard input stays open for as long as the link does: at its end the runner is killed.
    Where the link has one channel only (`mixed`), exit code and log follow the trace.
    """
    starts = " ".join(map(quoted, before))
    log = " 2>log" if mixed else ""
    told = f"printf '\\n{TRAILER}%s\\n' \"$code\"; tail -c 8000 log\n" if mixed else ""
    return f"""j={quoted(folder)}
p=
finish() {{ [ -n "$p" ] && kill -9 "$p" 2>/dev/null; cd /; rm -rf -- "$j"; }}
trap finish EXIT
trap "exit 129" HUP INT TERM PIPE
cd "$j" || exit 71
exec 3<&0
LD_LIBRARY_PATH="$j" {starts} ./runner request - </dev/null 3<&-{log} &
p=$!
(cat <&3; kill -9 "$p") >/dev/null 2>&1 &
w=$!
exec 3<&-
wait "$p"
code=$?
p=
kill "$w" 2>/dev/null
{told}exit "$code"
"""
