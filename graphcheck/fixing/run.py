"""The whole of `fix`: look at the model, edit its source, look again."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.files import write_atomic
from graphcheck.fixing.owned import is_dirty
from graphcheck.fixing.types import Decision, FixOptions, FixResult, Look
from graphcheck.swap.interface import Unfit, parse_picks, swap_named

__all__ = ["run_fix"]

_TOLERANCE = 1e-4
"""Of loss and gradient norm in float32, relative, before and after an exact swap."""


def run_fix(options: FixOptions, look: Callable[[FixOptions], Look]) -> FixResult:
    """Fix a target. `look` loads, checks and decides; it is called again on the fixed files.

    Raises UsageError for a pick that cannot be meant, a target that is no Python file of the
    user's, or a file with changes that git has not; whatever `look` raises.
    """
    parse_picks(options.swaps)
    if options.target.startswith("torchvision:"):
        raise UsageError(
            f"{options.target} is no file of yours: there is nothing to edit.",
            "Write a file with get_model() that returns the model, and get_example_inputs().",
        )
    if options.target.endswith((".pt2", ".pte")):
        raise UsageError(
            f"{options.target} is not source code, so it cannot be edited.",
            "Name the Python file that makes the model.",
        )
    seen = look(options)
    result = _fix(seen, look, options)
    doubtful = {d for d in result.applied if swap_named(d.swap.partition("=")[0]).entry.asked}
    if result.failure and doubtful and not options.swaps:
        # An exact swap that holds for most models only: once more without it.
        kept = tuple(
            replace(d, form="skip", reason=result.failure)
            if d.form != "skip" and _like(d, doubtful)
            else d
            for d in seen.decisions
        )
        result = _fix(replace(seen, decisions=kept), look, options)
    return result


def _like(decision: Decision, others: Iterable[Decision]) -> bool:
    return any((decision.module, decision.swap) == (o.module, o.swap) for o in others)


def _fix(seen: Look, look: Callable[[FixOptions], Look], options: FixOptions) -> FixResult:
    result = FixResult(options.target, before=seen.report)
    if seen.report.failed:
        return replace(result, left=seen.report)
    applied, skipped, files = _edit(seen, options)
    result = replace(result, applied=applied, skipped=skipped)
    if not files:
        return replace(result, left=None if options.diff else seen.report)
    result = replace(
        result,
        diff="".join(_diff(path, old, new) for path, (old, new) in files.items()),
        files=tuple(map(str, files)),
    )
    if options.diff:
        return result
    _refuse_dirty(files, options)
    _write({path: new for path, (_, new) in files.items()})
    return _prove(result, seen, files, look, options)


Files = dict[Path, tuple[bytes, bytes]]


def _edit(
    seen: Look, options: FixOptions
) -> tuple[tuple[Decision, ...], tuple[Decision, ...], Files]:
    """Decisions carried out and not, and every file that changes, before and after."""
    from graphcheck.fixing.call import add_call
    from graphcheck.fixing.edit import edit

    skipped = [d for d in seen.decisions if d.form == "skip"]
    wanted = [d for d in seen.decisions if d.form not in ("skip", "call")]
    calls = [d for d in seen.decisions if d.form == "call"]
    applied: list[Decision] = []
    files: Files = {}
    for file in sorted({d.file for d in wanted}):
        data = Path(file).read_bytes()
        here = [d for d in wanted if d.file == file]
        edited = edit(data, here)
        # The call of a class that the file only passes on: its instances can still be swapped.
        calls += [d for d in here if d in edited.failures and d.form == "constructor"]
        skipped += [
            replace(d, form="skip", reason=edited.failures[d])
            for d in here
            if d in edited.failures and d.form != "constructor"
        ]
        applied += [d for d in here if d not in edited.failures]
        if edited.data != data:
            files[Path(file)] = (data, edited.data)
    if calls:
        path = Path(seen.file)
        old, now = files.get(path, (b"", b""))
        if path not in files:
            old = now = path.read_bytes()
        shift = now.count(b"\n") - old.count(b"\n")
        factory = options.target.rpartition(":")[2] if _names_factory(options.target) else ""
        asked = [(d.swap, [line + shift for line in d.anchors]) for d in calls]
        try:
            new, failures = add_call(now, asked, factory)
        except Unfit as error:
            new, failures = now, dict.fromkeys(range(len(calls)), str(error))
        for i, d in enumerate(calls):
            if i in failures:
                skipped.append(replace(d, form="skip", reason=failures[i]))
            else:
                applied.append(replace(d, form="call", file=str(path), line=0))
        if new != old:
            files[path] = (old, new)
    order = {(d.code, d.subject, d.module): i for i, d in enumerate(seen.decisions)}

    def key(decision: Decision) -> tuple[str, int, int]:
        index = order[decision.code, decision.subject, decision.module]
        return (decision.file, decision.line, index) if decision.form != "skip" else ("", 0, index)

    return tuple(sorted(applied, key=key)), tuple(sorted(skipped, key=key)), files


def _names_factory(target: str) -> bool:
    head, colon, tail = target.rpartition(":")
    return bool(colon) and tail.isidentifier() and not os.path.exists(target) and bool(head)


def _diff(path: Path, old: bytes, new: bytes) -> str:
    shown = os.path.relpath(path)
    # A path from the root has no prefix: `a//tmp/model.py` would be another file.
    outside = shown.startswith("..")
    names = (str(path), str(path)) if outside else (f"a/{shown}", f"b/{shown}")
    lines = difflib.unified_diff(
        old.decode(errors="replace").splitlines(keepends=True),
        new.decode(errors="replace").splitlines(keepends=True),
        *names,
    )
    text = ""
    for line in lines:
        text += line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
    return text


def _refuse_dirty(files: Iterable[Path], options: FixOptions) -> None:
    if options.allow_dirty:
        return
    dirty = [path for path in files if is_dirty(path)]
    if dirty:
        names = ", ".join(os.path.relpath(path) for path in dirty)
        raise UsageError(
            f"{names} has changes that are not committed.",
            "Commit or stash them first, look at --diff, or give --allow-dirty.",
        )


def _write(contents: dict[Path, bytes]) -> None:
    """Write all files, or none. Raises UsageError."""
    before = {path: path.read_bytes() for path in contents}
    for path, data in contents.items():
        try:
            write_atomic(path, data)
        except BaseException as error:
            for written, old in before.items():
                if written.read_bytes() != old:
                    write_atomic(written, old)
            if isinstance(error, OSError):
                raise UsageError(
                    f"{path} could not be written: {error.strerror or error}.",
                    "No file was changed.",
                ) from error
            raise


def _prove(
    result: FixResult,
    seen: Look,
    files: Files,
    look: Callable[[FixOptions], Look],
    options: FixOptions,
) -> FixResult:
    """Look at the fixed model; put the files back when it fails, or is another function."""
    try:
        again = look(options)
        failure = _failure(again)
        undone = () if failure else _undone(result, seen, again)
    except UsageError:
        raise
    except Exception as error:
        _write({path: old for path, (old, _) in files.items()})
        text = getattr(error, "message", "") or getattr(error, "detail", "") or str(error)
        return replace(result, files=(), failure=f"the fixed model could not be checked: {text}")
    if undone:
        # The edit without those: what is told as fixed is fixed, and nothing else is written.
        _write({path: old for path, (old, _) in files.items()})
        kept = tuple(
            replace(d, form="skip", reason=_still(d))
            if d.form != "skip" and _like(d, undone)
            else d
            for d in seen.decisions
        )
        return _fix(replace(seen, decisions=kept), look, options)
    exact = all(decision.change == "exact" for decision in result.applied)
    compared = ""
    if not failure and exact and seen.loss is not None and again.loss is not None:
        failure = _differs("loss", seen.loss, again.loss)
        failure = failure or _differs("gradient norm", seen.gradient, again.gradient)
        compared = "loss and gradient norm on the example inputs are as before"
    if failure:
        _write({path: old for path, (old, _) in files.items()})
        return replace(result, files=(), failure=failure)
    if exact and not compared:
        compared = "NOT CHECKED: loss before and after (the pass is random, or has no single loss)"
    return replace(result, left=again.report, compared=compared)


def _undone(result: FixResult, seen: Look, again: Look) -> tuple[Decision, ...]:
    """What was carried out, and would be again on the edited model: it changed nothing there."""
    left = _counted(again.decisions)
    left.subtract(_counted(seen.decisions))
    left.update(_counted(result.applied))
    return tuple(d for d in result.applied if left[d.module, d.swap] > 0)


def _counted(decisions: Iterable[Decision]) -> Counter[tuple[str, str]]:
    return Counter((d.module, d.swap) for d in decisions if d.form != "skip")


def _still(decision: Decision) -> str:
    """Why an edit that was tried is not kept."""
    return (
        f"the edit was tried, and {decision.module or 'the model'} was as before: call "
        f'graphcheck.make_trainable(model, swaps=["{decision.swap}"]) where your code makes '
        "the model"
    )


def _failure(again: Look) -> str:
    if not again.report.failed:
        return ""
    first = again.report.findings[0].message if again.report.findings else "no reason was given"
    return f"the fixed model could not be checked: {first}"


def _differs(what: str, before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return ""
    # Written so that NaN fails.
    if abs(after - before) <= _TOLERANCE * max(abs(before), 1e-6):
        return ""
    return (
        f"the swaps should keep the function, but the {what} on the example inputs was "
        f"{before:.7g} and is {after:.7g}"
    )
