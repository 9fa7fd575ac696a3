"""Whether a gradient of a max pool is one of those that are right: a comparison with a set.

Where a window has several largest values, its gradient may go to any of them, or be shared among
them in any way (the subdifferential of max). So the observed gradient is right when there is a
share of each tied window that gives it, up to the rounding of the sums; windows that share cells
are looked at together.
"""

from __future__ import annotations

from typing import Any

from graphcheck.validate.noise import unit
from graphcheck.validate.ties.windows import Windows

__all__ = ["admissible_gradient"]

_ROUNDS = 1000
_SHARES = 4.0
"""Roundings of a share."""
_LARGEST = 64
"""Tied windows that hang together; of more, nothing is decided."""


def admissible_gradient(
    given: dict[str, Any], observed: Any, bad: Any, tolerance: Any
) -> int | None:
    """How many tied windows `observed` decides in another way; None if it is not admissible.

    `given` are the arguments of `max_pool2d_with_indices_backward`, `bad` the entries that differ
    from what its indices say, `tolerance` the rounding of each entry.
    """
    import torch

    gradient = given["grad_output"]
    windows = Windows(given["self"], given, tuple(gradient.shape))
    flow = windows.per_window(gradient)
    index, _ = windows.cells
    planes, free = flow.shape[0], windows.tied & (flow != 0)
    if not bool(free.any()):
        return None
    fixed = windows.scattered(windows.tops * (flow * ~free).unsqueeze(1)).reshape(planes, -1)
    target = observed.double().reshape(planes, -1) - fixed
    limit = torch.as_tensor(tolerance, dtype=torch.float64).expand(observed.shape)
    limit = limit.reshape(planes, -1)
    wrong = bad.reshape(planes, -1)
    changed = 0
    for plane in torch.nonzero(wrong.any(1)).flatten().tolist():
        cells: dict[int, list[int]] = {}
        members = {}
        for window in torch.nonzero(free[plane]).flatten().tolist():
            members[window] = index[windows.tops[plane, :, window], window].tolist()
            for cell in members[window]:
                cells.setdefault(cell, []).append(window)
        reached = set(cells)
        if any(cell not in reached for cell in torch.nonzero(wrong[plane]).flatten().tolist()):
            return None
        for group in _groups(members, cells):
            touched = sorted({cell for window in group for cell in members[window]})
            if not bool(wrong[plane, touched].any()):
                continue
            if len(group) > _LARGEST or not _feasible(
                group,
                members,
                touched,
                flow[plane],
                target[plane],
                limit[plane],
                unit(gradient.dtype),
            ):
                return None
            changed += len(group)
    return changed


def _groups(members: dict[int, list[int]], cells: dict[int, list[int]]) -> list[list[int]]:
    """Windows that hang together through shared cells."""
    left, found = set(members), []
    while left:
        waiting = [left.pop()]
        group = []
        while waiting:
            window = waiting.pop()
            group.append(window)
            for cell in members[window]:
                for other in cells[cell]:
                    if other in left:
                        left.remove(other)
                        waiting.append(other)
        found.append(sorted(group))
    return found


def _feasible(
    group: list[int],
    members: dict[int, list[int]],
    touched: list[int],
    flow: Any,
    target: Any,
    limit: Any,
    rounding: float,
) -> bool:
    """Whether shares of the windows' gradients, each a point of a simplex, give the target.

    Projected gradient descent on the squared distance; a few dozen unknowns.
    """
    import torch

    place = {cell: i for i, cell in enumerate(touched)}
    size = max(float(flow[window].abs()) for window in group)
    goal = target[touched] / size
    # Shares are rounded, too, where the indices alone would give an exact zero.
    slack = (limit[touched].max() + _SHARES * rounding * size) / size
    # However it is shared, all of it arrives.
    total = sum(float(flow[window]) for window in group) / size
    if not (abs(float(goal.sum()) - total) <= float(slack) * (len(touched) + 1)):
        return False
    owners = [(window, place[cell]) for window in group for cell in members[window]]
    columns = torch.zeros(len(touched), len(owners), dtype=torch.float64)
    parts: list[list[int]] = [[] for _ in group]
    for k, (window, at) in enumerate(owners):
        columns[at, k] = float(flow[window]) / size
        parts[group.index(window)].append(k)
    shares = torch.zeros(len(owners), dtype=torch.float64)
    for part in parts:
        shares[part] = 1.0 / len(part)
    step = 1.0 / max(1e-30, float(torch.linalg.matrix_norm(columns, 2)) ** 2)
    for _ in range(_ROUNDS):
        off = columns @ shares - goal
        # Half the rounding again for what the descent leaves.
        if bool((off.abs() <= 1.5 * slack + 1e-12).all()):
            return True
        shares = shares - step * (columns.T @ off)
        for part in parts:
            shares[part] = _on_simplex(shares[part])
    return False


def _on_simplex(point: Any) -> Any:
    """The nearest point with entries that are not negative and add up to 1."""
    import torch

    ordered = torch.sort(point, descending=True).values
    total = torch.cumsum(ordered, 0) - 1
    count = torch.arange(1, point.numel() + 1, dtype=torch.float64)
    keep = int((ordered - total / count > 0).sum())
    return (point - total[keep - 1] / keep).clamp(min=0)
