"""Memory layouts of tensors whose size depends on the data.

ExecuTorch derives a dim order by comparing strides, and torch refuses to compare a stride that
only the data tell (`u0 < 1`). The answer matters for an empty tensor alone, which holds nothing. So
a comparison that torch refuses is answered as torch itself does where it may (size-oblivious):
as for a size of two or more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["forget_pending_", "layouts_settled"]


@contextlib.contextmanager
def layouts_settled() -> Iterator[list[str]]:
    """Within, such comparisons are answered; yields a list of those that were."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

    original = ShapeEnv.evaluate_sym_node
    settled: list[str] = []

    def evaluate(self: Any, sym_node: Any, size_oblivious: bool = False, **more: Any) -> Any:
        try:
            return original(self, sym_node, size_oblivious, **more)
        except GuardOnDataDependentSymNode:
            answer = original(self, sym_node, True, **more)
            settled.append(str(sym_node.expr))
            return answer

    ShapeEnv.evaluate_sym_node = evaluate
    try:
        yield settled
    finally:
        ShapeEnv.evaluate_sym_node = original


def forget_pending_(joint: Any) -> None:
    """Forget symbols that a pass made and did not use since it failed; torch refuses to go on."""
    from torch._guards import detect_fake_mode

    mode = detect_fake_mode([node.meta.get("val") for node in joint.graph.nodes])
    if mode is not None and mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()
