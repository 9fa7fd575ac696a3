"""Resizing as products with interpolation matrices: every backward, and antialiased bicubic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.interpolation import antialiased, cubic, linear, nearest
from graphcheck.rewrite.parts import separable

__all__ = ["REWRITES"]

_Matrix = Callable[[Any, Any, bool, Any, Any], Any]


def _backward(dims: int, matrix: _Matrix, aligns: bool) -> Callable[..., Any]:
    def decompose(grad: Any, output_size: Any, input_size: Any, *rest: Any) -> Any:
        """grad: [N, C, *output_size]; the rest is align_corners where the op has it, and scales."""
        align = bool(rest[0]) if aligns else False
        scales = [*rest[int(aligns) :], *[None] * dims]
        sizes = zip(list(input_size)[-dims:], list(output_size), scales, strict=False)
        return separable(
            grad, [matrix(n, o, align, scale, grad.dtype).t() for n, o, scale in sizes]
        )

    return decompose


def _forward(matrix: _Matrix) -> Callable[..., Any]:
    def decompose(
        x: Any, output_size: Any, align: bool, scale_h: Any = None, scale_w: Any = None
    ) -> Any:
        """x: [N, C, H, W]."""
        sizes = zip(x.shape[-2:], list(output_size), (scale_h, scale_w), strict=True)
        return separable(x, [matrix(n, o, align, scale, x.dtype) for n, o, scale in sizes])

    return decompose


_FORMULA = "grad_input = grad M_1^T M_2^T ..., M the interpolation matrix of each dim: "
_MEMORY = "one matrix and one transposed copy of the gradient per dim"
_SOURCE = "documentation of torch.nn.functional.interpolate"


def _entries() -> list[tuple[str, int, _Matrix, bool, str]]:
    found: list[tuple[str, int, _Matrix, bool, str]] = []
    for dims, name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
        found.append((f"upsample_nearest{dims}d", dims, nearest(0.0), False, "1 at the source"))
        exact = nearest(0.5)
        found.append((f"_upsample_nearest_exact{dims}d", dims, exact, False, "1 at the source"))
        found.append((f"upsample_{name}", dims, linear, True, "linear weights"))
    found.append(("upsample_bicubic2d", 2, cubic, True, "Keys' cubic with a = -0.75"))
    text = "linear weights over the width of the reduction"
    found.append(("_upsample_bilinear2d_aa", 2, antialiased(1), True, text))
    text = "Keys' cubic with a = -0.5 over the width of the reduction"
    found.append(("_upsample_bicubic2d_aa", 2, antialiased(2), True, text))
    return found


REWRITES = (
    *(
        Rewrite(
            name=f"{name.lstrip('_')}_backward_products",
            op=f"aten.{name}_backward.default",
            formula=_FORMULA + weights,
            source=_SOURCE,
            decompose=_backward(dims, matrix, aligns),
            memory=_MEMORY,
        )
        for name, dims, matrix, aligns, weights in _entries()
    ),
    Rewrite(
        name="upsample_bicubic2d_aa_products",
        op="aten._upsample_bicubic2d_aa.default",
        formula="y = x M_H M_W with Keys' cubic, a = -0.5, over the width of the reduction",
        source=_SOURCE,
        decompose=_forward(antialiased(2)),
        memory=_MEMORY,
    ),
)
