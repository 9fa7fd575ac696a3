"""BatchNorm as GroupNorm: statistics of each sample in place of those of the batch.

The number of groups must divide the channels: gcd(groups, channels), 32 groups unless asked
otherwise. BatchNorm1d on [N, C] has one value for each channel, so a group must hold several
channels there, or the layer puts out its shift whatever comes in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphcheck.swap.interface import Made, Swap, Unfit
from graphcheck.swap.source import bind, integer

if TYPE_CHECKING:
    import libcst as cst

    from graphcheck.swap.source import Editor

__all__ = ["LEAST_1D", "SWAP", "groups_for"]

_GROUPS = 32
LEAST_1D = 8
"""Channels in a group of a BatchNorm1d, if there are so many: few values make a poor variance."""
_KEPT = ("num_features", "eps", "affine", "device", "dtype", "bias")
_PARAMETERS = (
    "num_features",
    "eps",
    "momentum",
    "affine",
    "track_running_stats",
    "device",
    "dtype",
    "bias",
)
_OF_SYNC = (*_PARAMETERS[:5], "process_group", *_PARAMETERS[5:])


def _wanted(argument: str) -> int:
    groups = int(argument) if argument.isascii() and argument.isdecimal() else 0
    if argument and groups < 1:
        raise Unfit(f"the number of groups must be a whole number above 0, not {argument}")
    return groups or _GROUPS


def groups_for(channels: int, wanted: int, *, flat: bool) -> int:
    """The number of groups: a divisor of `channels` and `wanted`.

    `flat` keeps at least `LEAST_1D` channels in a group where there are as many. Raises Unfit for
    one channel that is flat: its every output would be the shift.
    """
    if not flat:
        return math.gcd(wanted, channels)
    if channels == 1:
        raise Unfit("with one channel each group of [N, 1] holds one value, and nothing is learnt")
    most = max(channels // LEAST_1D, 1)
    fitting = [g for g in range(1, most + 1) if channels % g == 0 and wanted % g == 0]
    return max(fitting)


def _other_number(channels: int, wanted: int, groups: int) -> str:
    """Why another number of groups is used than was asked for, "" where it is the same."""
    if groups == wanted:
        return ""
    if channels % wanted:
        return f"; {wanted} does not divide {channels}, so {groups} is used"
    least = min(channels, LEAST_1D)
    return f"; {wanted} groups would hold fewer than {least} channels each, so {groups} is used"


def _make(module: Any, argument: str) -> Made:
    from torch import nn

    channels = module.num_features
    flat = type(module).__name__ == "BatchNorm1d"
    groups = groups_for(channels, _wanted(argument), flat=flat)
    made = nn.GroupNorm(groups, channels, eps=module.eps, affine=module.affine)
    # The same parameters, so that an optimizer that has them keeps them.
    made.weight, made.bias = module.weight, module.bias
    made.train(module.training)
    size = channels // groups
    what = f"{groups} group{'s' if groups > 1 else ''} of {size} channel{'s' if size > 1 else ''}"
    what += ", scale and shift kept"
    if argument:
        what += _other_number(channels, _wanted(argument), groups)
    if groups == channels:
        what += "; each needs more than one value"
    return Made(made, what)


def _change(call: cst.Call, called: str, editor: Editor, argument: str) -> cst.BaseExpression:
    import libcst as cst

    parameters = _OF_SYNC if called == "SyncBatchNorm" else _PARAMETERS
    given = bind(call, parameters)
    channels = given.get("num_features")
    if channels is None:
        raise Unfit("num_features is not given")
    wanted = _wanted(argument)
    known = integer(channels)
    groups: cst.BaseExpression
    if known is not None:
        groups = cst.Integer(str(groups_for(known, wanted, flat=called == "BatchNorm1d")))
    elif called == "BatchNorm1d":
        raise Unfit("the number of channels is not written as a number, so groups cannot be chosen")
    else:
        gcd = cst.Attribute(editor.module("math"), cst.Name("gcd"))
        groups = cst.Call(gcd, [cst.Arg(cst.Integer(str(wanted))), cst.Arg(channels)])
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    arguments = [cst.Arg(groups, comma=comma)]
    for name, given_as in zip(_names(call, parameters), call.args, strict=True):
        if name == "num_features":
            # First in both: a keyword would have to be num_channels.
            arguments.insert(
                1, given_as.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
            )
        elif name in _KEPT:
            arguments.append(_by_keyword(given_as, name))
    if len(arguments) < len(call.args) + 1:
        arguments[-1] = arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    func = editor.sibling(call.func, called, "GroupNorm")
    return call.with_changes(func=func, args=arguments)


def _names(call: cst.Call, parameters: Sequence[str]) -> list[str]:
    """The parameter that each argument goes to."""
    return [
        argument.keyword.value if argument.keyword else parameters[index]
        for index, argument in enumerate(call.args)
    ]


def _by_keyword(argument: cst.Arg, name: str) -> cst.Arg:
    import libcst as cst

    if argument.keyword:
        return argument
    bare = cst.SimpleWhitespace("")
    return argument.with_changes(keyword=cst.Name(name), equal=cst.AssignEqual(bare, bare))


SWAP = Swap(
    name="batch-norm-as-group-norm",
    module=_make,
    source=_change,
    takes="a number of groups, 32 if not given; what divides the channels is used",
    check_argument=_wanted,
)
