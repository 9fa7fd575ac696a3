"""Swaps on a live module: `make_trainable`."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphcheck.arguments import checked_module, names_of
from graphcheck.errors import UsageError
from graphcheck.opset.swaps import SwapEntry, swap_catalogue
from graphcheck.swap.interface import Pick, Unfit, all_swaps, parse_picks

__all__ = ["REMINDER", "Change", "Trainable", "make_trainable", "replacement", "torch_kind"]

REMINDER = (
    "Build the optimizer after the swap: it must hold the parameters of the model as it is now."
)


@dataclass(frozen=True)
class Change:
    """What became of one module.

    `exact` is exact, numerics or function, as in `opsets/swaps.yaml`. `done` tells whether it was
    swapped; `what` says what was done, or why nothing was.
    """

    module: str
    kind: str
    swap: str
    exact: str
    done: bool
    what: str

    def __str__(self) -> str:
        name = self.module or "the model itself"
        kind = f" ({self.kind})" if self.kind else ""
        if not self.done:
            return f"{name}{kind}: not swapped: {self.what}"
        return f"{name}{kind}: {self.swap} ({_CHANGES[self.exact]}): {self.what}"


_GROUP_NORM = "batch-norm-as-group-norm"
_CHANGES = {"exact": "exact", "numerics": "changes numerics", "function": "changes the function"}


class Trainable(NamedTuple):
    """A changed module and what was done to it. Build the optimizer after the swap."""

    module: Any
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        """One line for each module, and the reminder."""
        done = any(change.done for change in self.changes)
        return "\n".join([*map(str, self.changes), *([REMINDER] if done else ["nothing done"])])


def make_trainable(
    module: Any,
    swaps: Sequence[str] | None = None,
    *,
    only: str | Sequence[str] = (),
    groups: int | None = None,
    unsafe: bool = False,
) -> Trainable:
    """Swap modules that the runtime cannot train for such as it can. Changes `module` in place.

    `swaps` are names as in `graphcheck fix --swap` (`batch-norm-as-group-norm=8`), in order of
    preference; without it every exact swap is made, and with `unsafe` the preferred one of those
    that change training, too. `only` are patterns of module paths (`layer4.*`). `groups` is the
    number of groups of GroupNorm, where batch-norm-as-group-norm is named or `unsafe` allows it.

    Weights are taken over; the names of parameters stay, but for those that a swap removes.
    Calls of functions in forward are out of reach: `graphcheck fix` edits them. Build the
    optimizer after the swap. Raises UsageError for a name or an argument that cannot be meant.
    """
    checked_module(module)
    if swaps is None:
        picks = tuple(
            Pick(entry.name)
            for entry in swap_catalogue().values()
            if not entry.asked and (entry.exact or unsafe)
        )
    else:
        picks = parse_picks(names_of(swaps, "swaps", _GROUP_NORM))
    if groups is not None:
        picks = _with_groups(picks, groups)
    patterns = names_of(only, "only", "layer4.*")
    paths = [path for path, _ in module.named_modules()]
    for pattern in patterns:
        if not fnmatch.filter(paths, pattern):
            raise UsageError(
                f"only={pattern!r} matches no module.",
                f"Paths of this model are {', '.join(filter(None, paths[:6]))} and the like.",
            )

    def chosen(path: str) -> bool:
        return not patterns or any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)

    changes: list[Change] = []
    for pick in picks:
        swap = all_swaps()[pick.name]
        if swap.whole is not None:
            for path, what, why in swap.whole(module, pick.argument, chosen):
                changes.append(_change(path, "", swap.entry, not why, what or why))
    module = _swap_each(module, [p for p in picks if all_swaps()[p.name].module], chosen, changes)
    return Trainable(module, tuple(changes))


def _with_groups(picks: Iterable[Pick], groups: int) -> tuple[Pick, ...]:
    if isinstance(groups, bool) or not isinstance(groups, int):
        raise UsageError(
            f"groups is of type {type(groups).__name__}, not a whole number.",
            f"Pass the number of groups, for instance swaps=[{_GROUP_NORM!r}], groups=8.",
        )
    if not any(pick.name == _GROUP_NORM for pick in picks):
        raise UsageError(
            f"groups={groups} belongs to the swap {_GROUP_NORM}, which is not asked for: it "
            "changes the function, so that it is made only when it is named or with unsafe=True.",
            f"Pass swaps=['{_GROUP_NORM}={groups}'], or leave groups out.",
        )
    kept = [str(pick) for pick in picks if str(pick) != _GROUP_NORM]
    # Who gives a number of groups prefers groups to what else would do.
    return parse_picks([f"{_GROUP_NORM}={groups}", *kept])


def torch_kind(module: Any) -> str:
    """The class of torch.nn that a module is, "" for a subclass or anything else."""
    kind = type(module)
    return kind.__name__ if kind.__module__.startswith("torch.nn.modules.") else ""


def replacement(module: Any, picks: Sequence[Pick]) -> tuple[Any, Pick | None, str]:
    """The module to put in place by the first pick that fits, that pick, and what was done.

    (None, None, why) when none fits; why is "" when none is meant for its kind.
    """
    kind = torch_kind(module)
    reasons: list[str] = []
    for pick in picks:
        swap = all_swaps()[pick.name]
        if swap.module is None or kind not in swap.entry.modules:
            continue
        try:
            made = swap.module(module, pick.argument)
        except Unfit as error:
            reasons.append(f"{pick.name}: {error}")
        else:
            return made.module, pick, made.what
    return None, None, "; ".join(reasons)


def _swap_each(
    root: Any, picks: Sequence[Pick], chosen: Callable[[str], bool], changes: list[Change]
) -> Any:
    """Swap module by module; one that has several places is swapped once, and in all of them."""
    made: dict[int, Any] = {}
    # The old modules must live until the end: `made` knows them by id.
    seen: list[Any] = []
    for path, module in list(root.named_modules(remove_duplicate=False)):
        if id(module) not in made:
            if not chosen(path):
                continue
            seen.append(module)
            new, pick, what = replacement(module, picks)
            made[id(module)] = new
            kind = torch_kind(module)
            if pick is not None:
                changes.append(_change(path, kind, swap_catalogue()[pick.name], True, what))
            elif what:
                changes.append(Change(path, kind, "", "", False, what))
        new = made[id(module)]
        if new is None:
            continue
        if not path:
            root = new
            continue
        parent, _, name = path.rpartition(".")
        root.get_submodule(parent)._modules[name] = new
    return root


def _change(path: str, kind: str, entry: SwapEntry, done: bool, what: str) -> Change:
    return Change(path, kind, entry.name, entry.change, done, what)
