"""Problems that can be seen before the model is traced."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from graphcheck.counted import counted
from graphcheck.errors import ModelError
from graphcheck.graph.custom_functions import lost_backward
from graphcheck.graph.gradient_hooks import lost_hooks
from graphcheck.graph.python_draws import frozen_draws
from graphcheck.graph.python_state import frozen_state
from graphcheck.graph.wrong_gradients import LOSS, WrongGradients
from graphcheck.workload.odd_inputs import no_tensors
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import Frame, shown_path

__all__ = ["LOST", "Problem", "lost_in_export", "off_by", "precheck"]

LOST = ("GC013", "GC015", "GC016")
"""What export loses without a mend: to train on would be to train wrong."""

_DEPTH = 4
_MOST_NAMES = 4


class Problem(ModelError):
    """A problem of family GC0 with its place.

    `fatal` is whether nothing can be traced because of it. `module` is the module path it belongs
    to; `file` and `line` are the user's, where known. `others` are further problems of the same
    model.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str,
        *,
        fatal: bool = True,
        module: str = "",
        file: str = "",
        line: int = 0,
        frame: Frame | None = None,
    ) -> None:
        super().__init__(message, hint, code)
        self.fatal = fatal
        self.module = module
        self.file = os.path.abspath(frame.file) if frame else file
        self.line = frame.line if frame else line
        self.others: tuple[ModelError, ...] = ()


def precheck(workload: Workload) -> list[Problem]:
    """What can be told before export: inputs that are no tensors (GC009), nothing to train
    (GC007), modules hidden in plain containers (GC010, not fatal), custom backward passes,
    gradient hooks and changes of Python values that export drops (GC013, GC015, GC016, not fatal).
    Runs the model only when it may have such."""
    return [
        *_inputs_that_are_no_tensors(workload),
        *_nothing_to_train(workload),
        *_hidden(workload),
        *lost_in_export(workload),
    ]


def lost_in_export(workload: Workload) -> list[Problem]:
    """What eager training does and no exported program will: backward passes of custom functions
    (GC013), gradient hooks (GC015), changes of Python values (GC016), where gradients show it."""
    return [
        *_custom_backward(workload),
        *_gradient_hooks(workload),
        *_python_state(workload),
        *_python_draws(workload),
    ]


def _python_draws(workload: Workload) -> Iterator[Problem]:
    frozen = frozen_draws(workload)
    if frozen is not None:
        yield Problem(
            "GC016",
            "Export keeps what forward draws from Python's or NumPy's random numbers as it was "
            f"while tracing: with other draws {off_by(frozen.wrong)}",
            "Draw with torch (`torch.rand(())`) and choose with torch.where.",
            fatal=False,
            file=frozen.file,
            line=frozen.line,
        )


def _python_state(workload: Workload) -> Iterator[Problem]:
    frozen = frozen_state(workload)
    if frozen is None:
        return
    many = len(frozen.names) > 1
    names = ", ".join(frozen.names[:_MOST_NAMES]) + (", ..." if frozen.names[_MOST_NAMES:] else "")
    yield Problem(
        "GC016",
        f"Export keeps {names} as {'they were' if many else 'it was'} while tracing, but forward "
        f"changes {'them' if many else 'it'}: at step {frozen.later} {off_by(frozen.wrong)}",
        'Keep it in a buffer (`self.register_buffer("count", torch.tensor(0.0))`), or give it '
        "to forward as an input.",
        fatal=False,
        file=frozen.file,
        line=frozen.line,
    )


def off_by(wrong: WrongGradients) -> str:
    """`the gradient of a.weight would be off by 0.3 of its largest entry`, and what else is."""
    loss = wrong.worst == LOSS
    what = "the loss" if loss else f"the gradient of {wrong.worst}"
    of_what = "value" if loss else "largest entry"
    return f"{what} would be off by {wrong.error:.2g} of its {of_what}{_affected(wrong)}"


def _gradient_hooks(workload: Workload) -> Iterator[Problem]:
    lost = lost_hooks(workload)
    if lost is None:
        return
    told = "; ".join(dict.fromkeys(f"{hook.function} on {hook.on}" for hook in lost.hooks))
    first = lost.hooks[0]
    yield Problem(
        "GC015",
        f"Gradient hooks are lost in export ({told}): the gradient of {lost.wrong.worst} is off by "
        f"{lost.wrong.error:.2g} of its largest entry"
        f"{_affected(lost.wrong)}",
        "Change the gradient in the graph, for instance `2 * x.detach() - x` to reverse it, or "
        "let the app change it between the step and the optimizer.",
        fatal=False,
        file=first.file,
        line=first.line,
    )


def _affected(wrong: WrongGradients) -> str:
    count = len(wrong.parameters)
    return f" ({count} parameters are affected)." if count > 1 else "."


def _custom_backward(workload: Workload) -> Iterator[Problem]:
    lost = lost_backward(workload)
    if lost is None:
        return
    names = " and ".join(lost.functions)
    place = f" ({lost.frame})" if lost.frame else ""
    yield Problem(
        "GC013",
        f"The backward of the custom autograd.Function {names} is lost in export{place}: it is "
        f"replaced by the derivative of its forward, and the gradient of {lost.wrong.worst} is off "
        f"by {lost.wrong.error:.2g} of its largest entry"
        f"{_affected(lost.wrong)}",
        "Write it so that autograd derives the wanted gradient, for instance "
        "`x + (x.round() - x).detach()` for a straight-through estimator.",
        fatal=False,
        frame=lost.frame,
    )


def _inputs_that_are_no_tensors(workload: Workload) -> Iterator[Problem]:
    for message, hint in no_tensors(workload.module, workload.inputs, workload.kwargs):
        yield Problem("GC009", message, hint)


def _nothing_to_train(workload: Workload) -> Iterator[Problem]:
    parameters = list(workload.module.parameters())
    if any(parameter.requires_grad for parameter in parameters):
        return
    if parameters:
        yield Problem(
            "GC007",
            f"{workload.root_type} has nothing to train: none of its "
            f"{counted(len(parameters), 'parameter')} has requires_grad=True.",
            "Unfreeze the parameters to train: module.requires_grad_(True).",
        )
    else:
        yield Problem(
            "GC007",
            f"{workload.root_type} has nothing to train: it has no parameters.",
            "Register layers as attributes, or in nn.ModuleList and nn.ModuleDict.",
        )


def _hidden(workload: Workload) -> Iterator[Problem]:
    from torch import nn

    modules = {id(module) for module in workload.module.modules()}
    registered = {id(parameter) for parameter in workload.module.parameters()}
    registered |= {id(buffer) for buffer in workload.module.buffers()}
    for path, module in workload.module.named_modules():
        for attribute, value in vars(module).items():
            if attribute.startswith("_") and attribute in _OWN:
                continue
            if not isinstance(value, list | tuple | set | frozenset | Mapping):
                continue
            names: list[str] = []
            trainable = 0
            for key, item in _members(value, "", 0):
                if isinstance(item, nn.Module):
                    if id(item) in modules:
                        continue
                    own = list(item.named_parameters())
                else:
                    own = [("", item)]
                fresh = [(n, p) for n, p in own if id(p) not in registered]
                names += [f"{key}.{n}" if n else key for n, _ in fresh]
                trainable += sum(p.numel() for _, p in fresh if p.requires_grad)
            if names and trainable:
                yield _hidden_problem(workload, path, module, attribute, value, names, trainable)


_OWN = {
    "_parameters",
    "_buffers",
    "_modules",
    "_non_persistent_buffers_set",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    # RNNs keep weak references and names of their registered weights here.
    "_flat_weights",
    "_flat_weight_refs",
    "_flat_weights_names",
    "_all_weights",
}


def _members(value: Any, key: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Modules and parameters inside nested plain containers, with their subscript."""
    import torch
    from torch import nn

    if isinstance(value, nn.Module) or (
        isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad
    ):
        yield key, value
    elif depth >= _DEPTH:
        return
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _members(item, f"{key}[{name!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _members(item, f"{key}[{index}]", depth + 1)
    elif isinstance(value, set | frozenset):
        for item in value:
            yield from _members(item, f"{key}{{...}}", depth + 1)


def _hidden_problem(
    workload: Workload,
    path: str,
    module: Any,
    attribute: str,
    value: Any,
    names: list[str],
    trainable: int,
) -> Problem:
    path = (path + ".").removeprefix(workload.prefix).strip(".")
    where = f"{path}.{attribute}" if path else attribute
    file, line = _assignment(type(module), attribute)
    place = f" ({shown_path(file)}:{line})" if line else ""
    listed = ", ".join(f"{where}{name}" for name in names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        listed += f" and {len(names) - _MOST_NAMES} more"
    kind = "dict" if isinstance(value, Mapping) else type(value).__name__
    better = "nn.ModuleDict" if kind == "dict" else "nn.ModuleList"
    return Problem(
        "GC010",
        f"`{where}` is a plain {kind}{place}, so its parameters are not registered and will not be "
        f"trained: {listed} ({counted(trainable, 'value')}).",
        f"Use {better} (for bare parameters {better.replace('Module', 'Parameter')}).",
        fatal=False,
        module=where,
        file=file,
        line=line,
    )


def _assignment(kind: type, attribute: str) -> tuple[str, int]:
    """File and line of `self.attribute = ...` in the class or its bases, ("", 0) if not found."""
    for base in kind.__mro__:
        try:
            lines, start = inspect.getsourcelines(base)
            tree = ast.parse(textwrap.dedent("".join(lines)))
            file = inspect.getsourcefile(base) or ""
        except (OSError, TypeError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and target.attr == attribute:
                    return file, start + node.lineno - 1
    return "", 0
