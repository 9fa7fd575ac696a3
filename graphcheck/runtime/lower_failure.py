"""Why lowering failed, in a sentence that names the op and the user's modules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from graphcheck.graph.provenance import Provenance

__all__ = ["StageFailure", "edge_failure", "executorch_failure", "first_line", "name_modules"]

_NOT_CORE = re.compile(r"Operator torch\._ops\.(?P<op>\S+) is not in Core ATen")
_NO_OUT = re.compile(r"Missing out variants: \{(?P<ops>[^}]*)\}")
_QUOTED = re.compile(r"'([^']+)'")
_EXECUTING = re.compile(r"While executing %(?P<node>\w+) ")
_DATA = "data-dependent expression"
_UNBOUNDED = "Cannot evaluate a finite upper bound"


@dataclass(frozen=True)
class StageFailure:
    """Why a stage failed: a sentence, the op it stopped at (`aten.avg_pool2d_backward`), if any.

    `modules` are the paths of the user's modules the op comes from; `log` is torch's own message;
    `code` is the GC0 code of a model that cannot be exported or differentiated. `from_data`: it
    stopped at a size or number that depends on the data, at joint node `node` if that is known.
    """

    message: str
    hint: str = ""
    op: str = ""
    modules: tuple[str, ...] = ()
    code: str = ""
    log: str = ""
    from_data: bool = False
    node: str = ""


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def edge_failure(error: Exception, joint: Any, provenance: Provenance) -> StageFailure:
    match = _NOT_CORE.search(str(error))
    if match is None and _DATA in str(error):
        executing = _EXECUTING.search(str(error))
        return _from_data(error, executing["node"] if executing else "", joint, provenance)
    formless = next((n.name for n in joint.graph.nodes if isinstance(n.target, FunctionType)), "")
    if match is None and isinstance(error, AssertionError) and formless:
        # `torch.sym_max(size, 1)`, which the verifier of the edge dialect refuses without words.
        return _from_data(error, formless, joint, provenance)
    if match is None:
        return StageFailure(f"to_edge failed: {first_line(error)}", log=str(error))
    op = match["op"].removesuffix(".default")
    modules = _modules_of(match["op"], joint, provenance)
    return StageFailure(
        f"to_edge refuses {op}{name_modules(modules)}: not core ATen",
        op=op,
        modules=modules,
        log=str(error),
    )


def _from_data(error: Exception, name: str, joint: Any, provenance: Provenance) -> StageFailure:
    node = next((node for node in joint.graph.nodes if node.name == name), None)
    at, op = "", ""
    modules: tuple[str, ...] = ()
    if node is not None:
        source = provenance.source(node)
        op = getattr(node.target, "__name__", "") if isinstance(node.target, FunctionType) else ""
        op = op or str(node.target).removesuffix(".default")
        place = f"{Path(source.file).name}:{source.line}" if source.file else source.module
        at = f" at {op} ({place})"
        modules = (source.module,)
    return StageFailure(
        f"to_edge stops{at}: it has to know a number that depends on the data",
        op=op,
        modules=modules,
        log=str(error),
        from_data=True,
        node=name if node is not None else "",
    )


def executorch_failure(error: Exception, joint: Any, provenance: Provenance) -> StageFailure:
    match = _NO_OUT.search(str(error))
    if match is None and _DATA in str(error):
        what = "cannot tell the memory layout of a tensor with a size that depends on the data"
        return StageFailure(f"to_executorch {what}", log=str(error), from_data=True)
    if match is None and _UNBOUNDED in str(error):
        what = "cannot plan memory for a size that depends on the data and has no upper bound"
        return StageFailure(f"to_executorch {what}", log=str(error), from_data=True)
    if match is None:
        return StageFailure(f"to_executorch failed: {first_line(error)}", log=str(error))
    names = sorted(name.replace("::", ".") for name in _QUOTED.findall(match["ops"]))
    told = []
    modules: tuple[str, ...] = ()
    for name in names:
        here = _modules_of(name, joint, provenance)
        modules += tuple(module for module in here if module not in modules)
        told.append(f"{name}{name_modules(here)}")
    return StageFailure(
        f"to_executorch finds no out variant for {', '.join(told)}",
        op=names[0] if names else "",
        modules=modules,
        log=str(error),
    )


def _modules_of(op: str, joint: Any, provenance: Provenance) -> tuple[str, ...]:
    """Module paths of the joint nodes that call `op`, with or without overload."""
    found: dict[str, None] = {}
    for node in joint.graph.nodes:
        name = str(node.target)
        if node.op == "call_function" and op in (name, name.rpartition(".")[0]):
            module = provenance.source(node).module
            if module:
                found[module] = None
    return tuple(found)


def name_modules(modules: Sequence[str], limit: int = 3) -> str:
    """` (norm1, norm2 and 18 more)`, empty without modules."""
    if not modules:
        return ""
    more = f" and {len(modules) - limit} more" if len(modules) > limit else ""
    return f" ({', '.join(modules[:limit])}{more})"
