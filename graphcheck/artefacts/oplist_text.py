"""A list of operators as text, YAML for ExecuTorch's selective build, CMake, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from graphcheck.artefacts.oplist import Lack, OperatorList, is_prim
from graphcheck.report.words import counted

__all__ = ["FORMATS", "lacks_json", "lacks_text"]


def as_text(wanted: OperatorList) -> str:
    """One operator a line with its calls, then the dtypes it is called with."""
    size = max((len(entry.name) for entry in wanted.operators), default=0)
    lines = []
    for entry in wanted.operators:
        parts = [f"{entry.forward} forward"] if entry.forward else []
        parts += [f"{entry.backward} backward"] if entry.backward else []
        prim = ", part of the runtime" if is_prim(entry.name) else ""
        keys = f", {counted(len(entry.keys), 'kernel key')}" if entry.keys else ""
        lines.append(f"{entry.name:<{size}}  {' + '.join(parts) or 'not called'}{keys}{prim}")
    lines += [f"backend {name}: not part of the operators" for name in wanted.delegates]
    prims = sum(is_prim(entry.name) for entry in wanted.operators)
    backward = sum(entry.backward > 0 and not entry.forward for entry in wanted.operators)
    lines.append(
        f"{counted(len(wanted.operators), 'operator')} of {wanted.source}: {backward} for the "
        f"backward pass alone, {prims} part of the runtime"
    )
    return "\n".join(lines) + "\n"


def as_yaml(wanted: OperatorList) -> str:
    """The shape of `selected_operators.yaml`, which EXECUTORCH_SELECT_OPS_YAML takes."""
    lines = [
        "build_features: []",
        "custom_classes: []",
        "et_kernel_metadata:",
        *(
            line
            for entry in wanted.operators
            if entry.keys
            for line in (f"  {entry.name}:", *(f"  - {key}" for key in entry.keys))
        ),
        "include_all_non_op_selectives: false",
        "include_all_operators: false",
        "kernel_metadata: {}",
        "operators:",
    ]
    if not any(entry.keys for entry in wanted.operators):
        lines[2] = "et_kernel_metadata: {}"
    if not wanted.operators:
        lines[-1] = "operators: {}"
    for entry in wanted.operators:
        lines += [
            f"  {entry.name}:",
            "    debug_info:",
            f"    - {json.dumps(wanted.source)}",
            "    include_all_overloads: false",
            "    is_root_operator: true",
            f"    is_used_for_training: {'true' if wanted.training else 'false'}",
        ]
    return "\n".join(lines) + "\n"


def as_cmake(wanted: OperatorList) -> str:
    """An initial cache for `cmake -C`: the operators for EXECUTORCH_SELECT_OPS_LIST."""
    kernels = [entry.name for entry in wanted.operators if not is_prim(entry.name)]
    prims = [entry.name for entry in wanted.operators if is_prim(entry.name)]
    lines = [
        f"# Operators that {wanted.source} needs: cmake -C THIS_FILE ...",
        f'set(EXECUTORCH_SELECT_OPS_LIST "{",".join(kernels)}"',
        '    CACHE STRING "Operators of the training program" FORCE)',
    ]
    if prims:
        lines.append(f"# Part of the runtime: {', '.join(prims)}")
    lines += [f"# Needs the backend {name}." for name in wanted.delegates]
    return "\n".join(lines) + "\n"


def as_json(wanted: OperatorList) -> str:
    """Everything, with a schema version."""
    import msgspec

    body = {"kind": "oplist", "schema_version": "1", **msgspec.to_builtins(wanted)}
    return json.dumps(body, indent=2) + "\n"


def lacks_text(found: Sequence[Lack], wanted: OperatorList, build: str) -> str:
    """What a build lacks, and in the last line whether it will do."""
    lines = []
    for lack in found:
        if not lack.keys:
            lines.append(f"{lack.operator}: not in the build ({counted(lack.calls, 'call')})")
        lines += [f"{lack.operator}: no kernel for {key}" for key in lack.keys]
    total = counted(len(wanted.operators), "operator")
    if found:
        lines.append(f"{build} lacks {len(found)} of {total} that {wanted.source} needs.")
    else:
        lines.append(f"{build} has every one of {total} that {wanted.source} needs.")
    return "\n".join(lines) + "\n"


def lacks_json(found: Sequence[Lack], wanted: OperatorList, build: str) -> str:
    """The same for programs."""
    import msgspec

    body = {
        "kind": "oplist-compare",
        "schema_version": "1",
        "source": wanted.source,
        "build": build,
        "operators": len(wanted.operators),
        "lacks": msgspec.to_builtins(list(found)),
    }
    return json.dumps(body, indent=2) + "\n"


FORMATS: Mapping[str, Callable[[OperatorList], str]] = {
    "text": as_text,
    "yaml": as_yaml,
    "cmake": as_cmake,
    "json": as_json,
}
