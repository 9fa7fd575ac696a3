"""A verdict as text: the ladder of stages, the curves, the first divergence, the stale outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphcheck.report.ansi import Paint, closing, wrap
from graphcheck.report.following import verdict_next_command
from graphcheck.report.interface import Look
from graphcheck.report.place import short_path, shorten
from graphcheck.report.sparkline import LEVELS, sparkline, value_range
from graphcheck.report.text_devices import devices_block
from graphcheck.report.text_ties import ties_block
from graphcheck.report.words import (
    counted,
    divergence_sentence,
    number,
    verdict_summary,
    versions_line,
)

if TYPE_CHECKING:
    from graphcheck.validate.types import StaleOutput, Verdict, WrongInstruction

__all__ = ["stale_sentence", "verdict_text", "wrong_details", "wrong_sentence"]

_COLORS = {"pass": "green", "match": "green", "fail": "red", "diverged": "red", "drift": "yellow"}
_WORST_SHOWN = 5
_WRONG_SHOWN = 10


def verdict_text(verdict: Verdict, look: Look) -> str:
    """The whole verdict. Quiet leaves the last line."""
    paint = Paint(color=look.color)
    blocks: list[Iterator[str]] = []
    if look.verbosity >= 0:
        blocks = [
            _ladder(verdict, look, paint),
            _curves(verdict, look),
            _first(verdict, look),
            _stale(verdict, look),
            _wrong(verdict, look),
            ties_block(verdict, look),
            _gradients(verdict, look),
            devices_block(verdict, look),
            _notes(verdict, look),
        ]
    blocks.append(_end(verdict, look, paint))
    texts = ["\n".join(block) for block in blocks]
    return "\n\n".join(text for text in texts if text) + "\n"


def _ladder(verdict: Verdict, look: Look, paint: Paint) -> Iterator[str]:
    names = max((len(stage.name) for stage in verdict.stages), default=0)
    for stage in verdict.stages:
        outcome = f"{stage.outcome:<7}"
        time = f" {stage.seconds:7.1f} s" if stage.seconds else " " * 10
        line = f"{outcome}  {stage.name:<{names}}{time}"
        detail = shorten(stage.detail, look.root)
        line = _columns(line, detail, look.width) if detail else line.rstrip()
        yield line.replace(outcome, paint(outcome, _COLORS.get(stage.outcome, "dim"), "bold"), 1)


def _columns(left: str, right: str, width: int | None) -> str:
    """`right` beside `left`, wrapped within its own column."""
    room = None if width is None else width - len(left) - 2
    first, *rest = wrap(right, room, hang="").splitlines()
    return "\n".join((f"{left}  {first}", *(" " * len(left) + f"  {line}" for line in rest)))


def _curves(verdict: Verdict, look: Look) -> Iterator[str]:
    if not (verdict.losses or verdict.eager_losses):
        return
    limits = value_range(verdict.losses, verdict.eager_losses)
    own = value_range(verdict.eager_losses)
    # Beside a runtime that blows up, a healthy curve would be a flat line.
    flat = bool(limits and own and _flat(own, limits))
    room = max(20, min(60, (look.width or 80) - 40))
    yield "loss"
    for name, losses in (("runtime", verdict.losses), ("eager", verdict.eager_losses)):
        if losses:
            alone = flat and name == "eager"
            curve = sparkline(losses, own if alone else limits, width=room, unicode=look.unicode)
            ends = f"{number(losses[0])} -> {number(losses[-1])}{_lost(losses)}"
            yield f"  {name:<7}  {curve}  {ends}{' (a scale of its own)' if alone else ''}"


def _flat(own: tuple[float, float], limits: tuple[float, float]) -> bool:
    """Whether a curve that moves spans less than one level of the scale that both share."""
    (low, high), (bottom, top) = own, limits
    return high > low and (high - low) * LEVELS < top - bottom


def _lost(losses: Sequence[float]) -> str:
    bad = [step for step, loss in enumerate(losses) if not math.isfinite(loss)]
    if not bad:
        return ""
    return f" (not finite in {counted(len(bad), 'step')}, first {bad[0]})"


def _first(verdict: Verdict, look: Look) -> Iterator[str]:
    if not verdict.losses:
        return
    yield "first divergence"
    for name, divergence in (
        ("training freely", verdict.first_free),
        ("weights reset before each step", verdict.first_locked),
    ):
        text = divergence_sentence(divergence) if divergence else "none"
        if name == "training freely" and not verdict.free_compared:
            text = "NOT COMPARED, the model draws random numbers"
        yield wrap(f"{name}: {text}", look.width, "  ")


def _stale(verdict: Verdict, look: Look) -> Iterator[str]:
    if not (verdict.stale_checked or verdict.losses):
        return  # the ladder says that it did not run
    if not verdict.stale_checked:
        yield wrap("stale outputs: NOT CHECKED, the detector did not run", look.width)
        return
    roots = [stale for stale in verdict.stale if stale.caused_by is None]
    fed = len(verdict.stale) - len(roots)
    if not verdict.stale:
        yield wrap("stale outputs: none, every instruction writes all of its output", look.width)
        return
    more = f", {counted(fed, 'instruction')} fed by them" if fed else ""
    yield wrap(
        f"stale outputs: {counted(len(roots), 'instruction')} whose result depends on what the"
        f" memory held before{more}",
        look.width,
    )
    for stale in verdict.stale if look.verbosity > 0 else roots:
        yield wrap(stale_sentence(stale, look.root), look.width, "  ")


def _wrong(verdict: Verdict, look: Look) -> Iterator[str]:
    if len(verdict.wrong) > 1 or any(wrong.count for wrong in verdict.wrong):
        many = f"wrong instructions: {len(verdict.wrong)} of {verdict.shadow_instructions} checked"
        yield wrap(f"{many}, each computes something else than eager PyTorch", look.width)
        shown = verdict.wrong if look.verbosity > 0 else verdict.wrong[:_WRONG_SHOWN]
        for wrong in shown:
            yield wrap(wrong_sentence(wrong, look.root), look.width, "  ")
            for detail in wrong_details(wrong, look.root):
                yield wrap(detail, look.width, "    ")
        if len(shown) < len(verdict.wrong):
            yield f"  ... and {len(verdict.wrong) - len(shown)} more (-v shows all)"
    elif verdict.first_wrong:
        sentence = wrong_sentence(verdict.first_wrong, look.root)
        yield wrap(f"first wrong instruction: {sentence}", look.width)
    elif verdict.shadow_checked:
        yield wrap(
            "wrong instructions: none, each computes what eager PyTorch does from its own inputs",
            look.width,
        )
    elif verdict.losses and verdict.verdict != "match":
        yield wrap("wrong instructions: NOT CHECKED, shadow execution did not run", look.width)


def stale_sentence(stale: StaleOutput, root: Path) -> str:
    """`instruction 41: aten::x.out at pool1 (model.py:20)`"""
    cause = f", fed by instruction {stale.caused_by}" if stale.caused_by is not None else ""
    return f"{_instruction(stale, root)}{cause}"


def wrong_sentence(wrong: WrongInstruction, root: Path) -> str:
    """`instruction 41: aten::x.out at pool1 (model.py:20), error 0.5 at step 0`"""
    detail = f": {wrong.detail}" if wrong.detail else ""
    sizes = f", error {wrong.error:.2g}, tolerance {wrong.tolerance:.2g}"
    if wrong.error == 0:  # it is wrong in what it wrote elsewhere
        sizes = ""
    return f"{_instruction(wrong, root)}, step {wrong.step}{sizes}{detail}"


def wrong_details(wrong: WrongInstruction, root: Path) -> Iterator[str]:
    """Where the largest error is, how many entries are wrong, and the reproducer."""
    if wrong.size:
        at = ", ".join(map(str, wrong.index))
        yield (
            f"largest error at [{at}] of output {wrong.output}: {number(wrong.observed)} in the "
            f"runtime, {number(wrong.expected)} in eager; {wrong.count} of {wrong.size} entries "
            "are off"
        )
    if wrong.reproducer:
        yield shorten(f"again: graphcheck validate --reproduce {wrong.reproducer}", root)


def _instruction(found: StaleOutput | WrongInstruction, root: Path) -> str:
    where = f" at {found.module}" if found.module else ""
    source = f" ({short_path(found.source, root)})" if found.source else ""
    return f"instruction {found.instruction}: {found.op}{where}{source}"


def _gradients(verdict: Verdict, look: Look) -> Iterator[str]:
    errors = verdict.worst_gradient_errors
    if not errors:
        return
    # NaN is the worst of all.
    ranked = sorted(errors.items(), key=lambda item: (-_rank(item[1]), item[0]))
    shown = ranked if look.verbosity > 0 else ranked[:_WORST_SHOWN]
    names = max(len(name) for name, _ in shown)
    yield "worst relative error of each gradient, weights reset before each step"
    for name, error in shown:
        yield f"  {name:<{names}}  {error:.2g}"
    if len(ranked) > len(shown):
        yield f"  ... and {len(ranked) - len(shown)} more, none worse than {shown[-1][1]:.2g}"


def _rank(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _notes(verdict: Verdict, look: Look) -> Iterator[str]:
    for note in verdict.notes:
        yield wrap(shorten(note, look.root), look.width, "note: ", "")
    if verdict.overhead and (look.verbosity > 0 or verdict.verdict != "not run"):
        yield wrap(_times(verdict.overhead), look.width)


def _times(seconds: Mapping[str, float]) -> str:
    """What a step costs, and what validating costs beside it."""
    return (
        f"time: a training step takes {seconds.get('bare step s', 0.0):.2g} s in the runtime "
        f"({seconds.get('recorded step s', 0.0):.2g} s with every gradient recorded); looking for "
        f"stale outputs took {seconds.get('detector and start s', 0.0):.2g} s, eager PyTorch "
        f"{seconds.get('eager side s', 0.0):.2g} s"
    )


def _end(verdict: Verdict, look: Look, paint: Paint) -> Iterator[str]:
    if look.verbosity >= 0:
        run = f", {counted(verdict.steps, 'step')}" if verdict.steps else ""
        optimizer = f", {verdict.optimizer}" if verdict.optimizer else ""
        yield paint(wrap(f"{versions_line(verdict.versions)}{optimizer}{run}", look.width), "dim")
    summary = shorten(f"{verdict.target}: {verdict_summary(verdict)}", look.root)
    if look.verbosity < 0:
        # The notes that say so are not shown.
        open_ = [note.partition(":")[0] for note in verdict.notes]
        summary += "".join(f" {note}." for note in open_ if "NOT CHECKED" in note)
    color = _COLORS.get(verdict.verdict, "yellow")
    yield closing(summary, verdict_next_command(verdict, look.again), look.width, paint, color)
