"""Errors of torch.export and of joint capture, decoded into a sentence that names the culprit.

torch's own words are used where they carry the answer; for the rest the model runs once more in
eager mode, watched (`graphcheck.graph.examine`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.graph.assigned_buffers import overwrites, was_modified, writes_in_place
from graphcheck.graph.examine import Examination, examine
from graphcheck.graph.examined import at, problems_seen
from graphcheck.graph.in_place import short_name, without_writing
from graphcheck.graph.precheck import Problem, precheck
from graphcheck.graph.provenance import Provenance
from graphcheck.graph.trace import SideEffect
from graphcheck.graph.types import Source
from graphcheck.process import WorkerFailure
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import (
    Frame,
    describe_exception,
    frame_among,
    is_out_of_memory,
    shown_path,
    user_frame,
)

__all__ = [
    "Problem",
    "diagnose_export",
    "diagnose_joint",
    "diagnose_worker",
    "precheck",
    "worth_retrying",
]


_UNFOLLOWED = "fake tensor in the exported program constant"


def diagnose_export(error: BaseException, workload: Workload) -> Problem:
    """The reason why `torch.export.export` failed; further problems of the model in `others`.

    Runs the model once more in eager mode.
    """
    known = _known_error(error)
    if known is not None:
        return known
    decoded = _decode_export(error)
    seen = examine(workload)
    found = _all_problems(seen, workload)
    if decoded is None and not any(problem.fatal for problem in found):
        decoded = _not_exported(error, workload)
    return _together([decoded, *found] if decoded else found)


def _not_exported(error: BaseException, workload: Workload) -> Problem:
    """What is said where nothing better is known than the words of torch."""
    frame = _frame(error)
    what = f"{workload.root_type} runs in eager PyTorch but cannot be exported"
    told = f"{what}: {_own_words(error)}{at(frame)}."
    hint = "Replace the named operation by tensor operations, or move it out of forward."
    if _UNFOLLOWED in str(error):
        told = (
            "forward makes a tensor that export cannot follow: by a write to `.data`, or by "
            f"`torch.autograd.grad` inside of it{at(frame)}."
        )
        hint = (
            "Write in place (`self.mean.copy_(...)`) and hold what is written in a buffer; a "
            "gradient penalty cannot be exported."
        )
    return Problem("GC003", told, hint, frame=frame)


def worth_retrying(error: BaseException) -> bool:
    """Whether the other tracer may be tried after this error of export.

    Not after a write to `parameter.data`: strict export lets it pass, and torch 2.14 then dies of
    SIGSEGV in joint capture (aten.set_ on a fake tensor).
    """
    return _UNFOLLOWED not in str(error)


def diagnose_joint(error: BaseException, workload: Workload, exported: Any) -> Problem:
    """The reason why an exported program could not be differentiated; the rest in `others`.

    `exported` is what `torch.export.export` returned; it says in words of the user where an
    operator without derivative comes from. Runs the model once more in eager mode.
    """
    known = _known_error(error)
    if known is not None:
        return known
    seen = examine(workload)
    found = _all_problems(seen, workload)
    if not any(problem.fatal for problem in found):
        found.insert(0, _decode_joint(error, workload, exported))
    return _together(found)


def diagnose_worker(failure: WorkerFailure, target: str) -> ModelError:
    """What the user is told when the process that loads and traces his model gave no answer."""
    stage = f" while {failure.stage}" if failure.stage else ""
    if failure.kind == "timeout":
        frame = frame_among(failure.frames)
        where = f"; it was at {frame}" if frame else ""
        hint = (
            "Raise the limit with --timeout, or train fewer steps with --steps."
            if failure.stage.startswith("training ")
            else "Raise the limit with --timeout, use smaller example inputs, or keep training "
            "loops under `if __name__ == '__main__':`."
        )
        return ModelError(f"{target} was stopped{stage}: {failure.detail}{where}.", hint, "GC012")
    if failure.kind == "memory":
        return ModelError(
            f"{target} was stopped{stage}: it took more memory than there is.",
            "Use smaller example inputs or a smaller model.",
            "GC012",
        )
    lines = [line.strip() for line in failure.output.splitlines() if line.strip()]
    last = f" Its last words: {lines[-1][:200]}" if lines else ""
    return ModelError(
        f"{target} ended its process{stage}: it {failure.detail}.{last}",
        "Something in the model's code or in a native library ends the process; run the file with "
        "`python -X faulthandler` to see where.",
        "GC001",
    )


def _known_error(error: BaseException) -> Problem | None:
    if isinstance(error, ModelError):
        return Problem(error.code, error.message, error.hint)
    if is_out_of_memory(error):
        return Problem(
            "GC012",
            f"Tracing asked for more memory than there is{at(_frame(error))}.",
            "Use smaller example inputs or a smaller model.",
            frame=_frame(error),
        )
    return None


def _all_problems(seen: Examination, workload: Workload) -> list[Problem]:
    """Fatal ones first; what `precheck` finds besides is rarely the reason of a failure."""
    before = precheck(workload)
    known = any(problem.code == "GC009" for problem in before)
    return [
        *(problem for problem in before if problem.fatal),
        # What forward raises on a value that is no tensor.
        *(p for p in problems_seen(seen, workload) if not (known and p.code == "GC014")),
        *(problem for problem in before if not problem.fatal),
    ]


def _together(problems: Iterable[Problem]) -> Problem:
    """The first problem, with the others attached, each code and message once."""
    unique = {(problem.code, problem.message): problem for problem in problems}
    first, *others = unique.values()
    first.others = tuple(others)
    return first


_USER_CODE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def _frame(error: BaseException) -> Frame | None:
    """The user's line: from the traceback, else from what strict export writes in its message."""
    frame = user_frame(error.__traceback__, error)
    if frame is not None and "site-packages" not in frame.file:
        return frame
    _, mark, quoted = str(error).partition("from user code:")
    found = list(_USER_CODE.finditer(quoted)) if mark else []
    if not found:
        return frame
    import linecache

    last = found[-1]
    line = int(last["line"])
    code = " ".join(linecache.getline(last["file"], line).split())
    return Frame(shown_path(last["file"]), line, code, last["function"])


def _type_names(error: BaseException) -> set[str]:
    names = {kind.__name__ for kind in type(error).__mro__}
    if error.__cause__ is not None:
        names |= {kind.__name__ for kind in type(error.__cause__).__mro__}
    return names


# Export


def _decode_export(error: BaseException) -> Problem | None:
    """What torch.export's own error says; None when it does not say enough."""
    text = str(error)
    names = _type_names(error)
    frame = _frame(error)
    if "ConstraintViolationError" in names or "Constraints violated" in text:
        return _fixed_dim(text)
    data_dependent = names & {"GuardOnDataDependentSymNode", "DataDependentOutputException"}
    if data_dependent or "data-dependent" in text.lower() or "SymFloat.__format__" in text:
        return Problem("GC004", _control_flow(frame), _CONTROL_FLOW_HINT, frame=frame)
    if "DynamicOutputShapeException" in names:
        op = text.strip().splitlines()[0] if text.strip() else "an operator"
        return Problem(
            "GC003",
            f"The shape of the result of {op} depends on the data, so the graph cannot be "
            f"recorded{at(frame)}.",
            "CTC loss is such an operator: compute it outside the exported model."
            if "ctc_loss" in op
            else "Use an operator whose result has a shape known from its inputs' shapes.",
            frame=frame,
        )
    if ".numpy() is not supported" in text:
        return Problem(
            "GC003",
            f"forward converts a tensor to NumPy, which cannot be recorded{at(frame)}.",
            "Use the torch functions of the same name instead of NumPy's.",
            frame=frame,
        )
    if names & {"UnsupportedOperatorException", "UnsupportedFakeTensorException"}:
        return Problem(
            "GC003",
            f"An operator cannot be traced without data: {_first_line(text)}{at(frame)}.",
            "Register a fake implementation with torch.library.register_fake, or replace it.",
            frame=frame,
        )
    return None


_CONTROL_FLOW_HINT = (
    "Use torch.where or torch.clamp instead of Python's control flow, decide from shapes, or move "
    "the check in front of the model."
)


def _control_flow(frame: Frame | None) -> str:
    code = frame.code if frame else ""
    first = code.split(" ", 1)[0].split("(", 1)[0]
    what = {
        "if": "An `if` depends",
        "elif": "An `elif` depends",
        "while": "A `while` depends",
        "assert": "An `assert` depends",
        "for": "A loop depends",
        "print": "A `print` depends",
    }.get(first)
    if what is None:
        number = any(mark in code for mark in (".item()", ".tolist()", "int(", "float(", "bool("))
        what = "A Python number made from a tensor depends" if number else "Python code depends"
    return f"{what} on the values of a tensor, which are not known while tracing{at(frame)}."


def _fixed_dim(text: str) -> Problem:
    fixed = re.search(r"specialized it to be a constant \((\d+)\)", text)
    what = f"the code fixes it to {fixed[1]}" if fixed else _first_line(text)
    names = re.search(r"Constraints violated \(([^)]*)\)", text)
    dim = names[1] if names else "a dim"
    return Problem(
        "GC003",
        f"The dim {dim!r} was declared dynamic, but {what}.",
        "Take sizes from the inputs (x.shape[0]) instead of writing numbers, or check without "
        "--dynamic-batch.",
    )


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = lines[0] if lines else "no message"
    return line if len(line) <= 300 else line[:297] + "..."


# Joint capture


def _decode_joint(error: BaseException, workload: Workload, exported: Any) -> Problem:
    if isinstance(error, SideEffect):
        return _side_effect(error, workload, exported)
    text = str(error)
    missing = re.search(r"derivative for '?(?:aten::)?(\w+)'? is not implemented", text)
    if missing:
        name = missing[1].strip("_")
        frame = _frame_of_op(exported, lambda node: name in str(node.target))
        return Problem(
            "GC011",
            f"The operator {missing[1]} has no derivative{at(frame)}.",
            "Replace it, or detach its input if no gradient has to flow through it.",
            frame=frame,
        )
    if "requires gradients, and received a mutation" in text:
        return Problem(
            "GC008",
            "A tensor that requires a gradient (a parameter or an input) is written in forward.",
            "Use a changed copy of it, or detach the input.",
        )
    if "USER_INPUT or BUFFER, got" in text:
        frozen = "InputKind.PARAMETER" in text
        _, frame = _place_of_op(exported, writes_in_place)
        return Problem(
            "GC008",
            f"A {'frozen parameter' if frozen else 'tensor that is no buffer'} is written in "
            f"forward, which a joint graph has no place for{at(frame)}.",
            "Hold it in a buffer (`self.register_buffer(...)`), which a program can write.",
            frame=frame,
        )
    if was_modified(error):
        node, frame = _place_of_op(exported, overwrites)
        if node is None:
            node, frame = _place_of_op(exported, writes_in_place)
        op = f" by {short_name(node)}" if node is not None else ""
        return Problem(
            "GC011",
            f"A tensor that the backward pass needs is written in place{op} after it was used"
            f"{at(frame)}.",
            f"{without_writing(exported, node, frame)}; the backward pass of eager PyTorch refuses "
            "it, too.",
            frame=frame,
        )
    return Problem(
        "GC011",
        f"The backward graph of {workload.root_type} could not be captured: "
        f"{_own_words(error)}{at(_frame(error))}.",
        "The forward graph is fine. Cut the model in halves to find the operation, or detach it "
        "if it needs no gradient.",
        frame=_frame(error),
    )


def _side_effect(error: SideEffect, workload: Workload, exported: Any) -> Problem:
    import torch

    provenance = Provenance(exported, workload.prefix, workload.root_type)
    node = next((node for node in exported.graph.nodes if node.name == error.exported), None)
    source = Source() if node is None else provenance.of_exported(node)
    frame = None
    if source.line:
        frame = Frame(shown_path(source.file), source.line, source.code, source.function)
    op = error.effect if node is None else str(node.target)
    op = op.rpartition(".")[0]
    name = op.removeprefix("aten.linalg_")
    checks = "_linalg_check_errors" in error.effect
    why = "checks its result for errors" if checks else "has a side effect"
    if checks and hasattr(torch.linalg, f"{name}_ex"):
        hint = (
            f"torch.linalg.{name}_ex computes the same without that check and can be traced, but "
            "the runtime has no kernel for it: compute this outside of the model, or give a kernel "
            "of your own with --kernel-library."
        )
    else:
        hint = "Compute this outside of the model, or with other operators."
    return Problem(
        "GC011",
        f"torch's joint export cannot trace the backward pass of {op}, since it {why} "
        f"({error.effect}){at(frame)}.",
        hint,
        module=source.module,
        frame=frame,
    )


_INTERNAL = re.compile(r" (?:While executing %|Original traceback:|Use tlparse |from user code:)")


def _own_words(error: BaseException) -> str:
    """What torch says of an error, without what it tells of its own graphs."""
    told = _INTERNAL.split(describe_exception(error))[0]
    return told.rstrip(" .!")


def _frame_of_op(exported: Any, wanted: Callable[[Any], bool]) -> Frame | None:
    """The user's line of the first such call of an operator in the exported program."""
    return _place_of_op(exported, wanted)[1]


def _place_of_op(exported: Any, wanted: Callable[[Any], bool]) -> tuple[Any | None, Frame | None]:
    """The first such call of an operator that has a line of the user's, and that line."""
    import linecache

    # What stands under `torch.no_grad()` has a graph of its own.
    graphs = [part.graph for part in exported.graph_module.modules() if hasattr(part, "graph")]
    for node in chain.from_iterable(graph.nodes for graph in graphs):
        if node.op != "call_function" or not wanted(node):
            continue
        quoted = [
            found
            for found in _USER_CODE.finditer(node.meta.get("stack_trace") or "")
            if "site-packages" not in found["file"]
        ]
        if quoted:
            last = quoted[-1]
            line = int(last["line"])
            code = " ".join(linecache.getline(last["file"], line).split())
            return node, Frame(shown_path(last["file"]), line, code, last["function"])
    return None, None
