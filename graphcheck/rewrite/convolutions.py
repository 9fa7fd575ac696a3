"""Convolutions the runtime has no kernel for, in terms of the 2-d ones it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphcheck.rewrite.parts import contiguous
from graphcheck.rewrite.windows import stretched, with_border

__all__ = [
    "convolve3d",
    "convolve3d_transposed",
    "lowered_backward",
    "transposed_backward",
]


def _is_temporal(kernel: Sequence[Any], stride: Sequence[Any], padding: Sequence[Any]) -> bool:
    """Whether height and width take no part: they can be one dim then."""
    return tuple(kernel[1:]) == tuple(stride[1:]) == (1, 1) and tuple(padding[1:]) == (0, 0)


def _folded(x: Any) -> Any:
    """[N, C, D, H, W] as [N, C, D, H*W]."""
    return x.reshape([*x.shape[:3], x.shape[3] * x.shape[4]])


def _planes(x: Any) -> Any:
    """[N, C, D, H, W] as a batch of planes [N*D, C, H, W]."""
    n, c, d, h, w = x.shape
    return x.permute(0, 2, 1, 3, 4).reshape(n * d, c, h, w)


def _boxes(planes: Any, batch: Any) -> Any:
    """The inverse of `_planes`, row-major."""
    total, c, h, w = planes.shape
    return contiguous(planes.reshape(batch, total // batch, c, h, w).permute(0, 2, 1, 3, 4))


def _convolve(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    transposed: bool = False,
    output_padding: Any = (0, 0),
) -> Any:
    import torch

    return torch.ops.aten.convolution.default(
        x,
        contiguous(weight),
        bias,
        list(stride),
        list(padding),
        list(dilation),
        transposed,
        list(output_padding),
        groups,
    )


def _tap(weight: Any, index: int) -> Any:
    import torch

    return torch.ops.aten.select.int(weight, 2, index)


def _slices(x: Any, count: Any, taps: int, stride: int, padding: int, dilation: int) -> list[Any]:
    """Per depth tap the planes it meets: x[:, :, d * stride + tap * dilation - padding]."""
    import torch

    reach = (count - 1) * stride + dilation * (taps - 1) + 1
    padded = with_border(x, 2, padding, reach - padding - x.shape[2])
    return [
        torch.ops.aten.slice.Tensor(
            padded, 2, t * dilation, t * dilation + (count - 1) * stride + 1, stride
        )
        for t in range(taps)
    ]


def _placed(part: Any, depth: Any, tap: int, stride: int, padding: int, dilation: int) -> Any:
    """The adjoint of `_slices` for one tap: planes put back to their depth, zeros elsewhere."""
    wide = stretched(part, 2, stride)
    before = tap * dilation - padding
    return with_border(wide, 2, before, depth - before - wide.shape[2])


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def convolve3d(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """x: [N, C, D, H, W]; weight: [O, C/groups, kD, kH, kW]."""
    kernel = weight.shape[2:]
    if _is_temporal(kernel, stride, padding):
        flat = _convolve(
            _folded(x),
            weight.reshape([*weight.shape[:3], 1]),
            bias,
            [stride[0], 1],
            [padding[0], 0],
            [dilation[0], 1],
            groups,
        )
        return flat.reshape([*flat.shape[:3], *x.shape[3:]])
    count = (x.shape[2] + 2 * padding[0] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    slices = _slices(x, count, kernel[0], stride[0], padding[0], dilation[0])
    parts = [
        _convolve(
            _planes(part),
            _tap(weight, t),
            bias if t == 0 else None,
            stride[1:],
            padding[1:],
            dilation[1:],
            groups,
        )
        for t, part in enumerate(slices)
    ]
    return _boxes(_sum(parts), x.shape[0])


def convolve3d_transposed(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    output_padding: Any,
    groups: int,
) -> Any:
    """x: [N, C, D, H, W]; weight: [C, O/groups, kD, kH, kW]."""
    taps = weight.shape[2]
    depth = (x.shape[2] - 1) * stride[0] - 2 * padding[0] + dilation[0] * (taps - 1) + 1
    depth = depth + output_padding[0]
    planes = _planes(x)
    parts = []
    for t in range(taps):
        part = _convolve(
            planes,
            _tap(weight, t),
            None,
            stride[1:],
            padding[1:],
            dilation[1:],
            groups,
            True,
            output_padding[1:],
        )
        boxes = _boxes(part, x.shape[0])
        parts.append(_placed(boxes, depth, t, stride[0], padding[0], dilation[0]))
    total = _sum(parts)
    return total if bias is None else total + bias.reshape(1, -1, 1, 1, 1)


def _backward2d(
    grad: Any,
    x: Any,
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    mask: Sequence[bool],
) -> Any:
    import torch

    return torch.ops.aten.convolution_backward.default(
        grad,
        x,
        contiguous(weight),
        [grad.shape[1]],
        list(stride),
        list(padding),
        list(dilation),
        False,
        [0, 0],
        groups,
        list(mask),
    )


def lowered_backward(
    grad: Any,
    x: Any,
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    mask: Any,
) -> tuple[Any, Any, Any]:
    """Backward of a plain convolution of 1 to 3 dims; holes where the mask asks for nothing."""
    dims = weight.dim() - 2
    if dims == 2:
        found = _backward2d(grad, x, weight, stride, padding, dilation, groups, mask)
        holes = [one if asked else None for one, asked in zip(found, mask, strict=True)]
        return holes[0], holes[1], holes[2]
    if dims == 1:
        flat = lowered_backward(
            grad.unsqueeze(2),
            x.unsqueeze(2),
            weight.unsqueeze(2),
            [1, *stride],
            [0, *padding],
            [1, *dilation],
            groups,
            mask,
        )
        return (_squeezed(flat[0]), _squeezed(flat[1]), flat[2])
    return _backward3d(grad, x, weight, stride, padding, dilation, groups, mask)


def _squeezed(x: Any) -> Any:
    return None if x is None else x.squeeze(2)


def _backward3d(
    grad: Any,
    x: Any,
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    mask: Any,
) -> tuple[Any, Any, Any]:
    import torch

    kernel = weight.shape[2:]
    if _is_temporal(kernel, stride, padding):
        flat = lowered_backward(
            _folded(grad),
            _folded(x),
            weight.reshape([*weight.shape[:3], 1]),
            [stride[0], 1],
            [padding[0], 0],
            [dilation[0], 1],
            groups,
            mask,
        )
        return (
            None if flat[0] is None else flat[0].reshape(x.shape),
            None if flat[1] is None else flat[1].reshape(weight.shape),
            flat[2],
        )
    upper = _planes(grad)
    slices = _slices(x, grad.shape[2], kernel[0], stride[0], padding[0], dilation[0])
    inputs, weights = [], []
    bias = None
    for t, part in enumerate(slices):
        asked = [mask[0], mask[1], mask[2] and t == 0]
        if not any(asked):
            continue
        found = _backward2d(
            upper,
            _planes(part),
            _tap(weight, t),
            stride[1:],
            padding[1:],
            dilation[1:],
            groups,
            asked,
        )
        if mask[0]:
            boxes = _boxes(found[0], x.shape[0])
            inputs.append(_placed(boxes, x.shape[2], t, stride[0], padding[0], dilation[0]))
        if mask[1]:
            weights.append(found[1].unsqueeze(2))
        if asked[2]:
            bias = found[2]
    return (
        _sum(inputs) if mask[0] else None,
        torch.ops.aten.cat.default(weights, 2) if mask[1] else None,
        bias,
    )


def transposed_backward(
    grad: Any,
    x: Any,
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    mask: Any,
) -> tuple[Any, Any, Any]:
    """Backward of a transposed convolution of 1 to 3 dims: input and gradient change places."""
    dims = weight.dim() - 2
    to_input = to_weight = to_bias = None
    if mask[0]:
        if dims == 3:
            to_input = convolve3d(grad, weight, None, stride, padding, dilation, groups)
        else:
            zeros = [0] * dims
            to_input = _convolve(
                grad, weight, None, stride, padding, dilation, groups, False, zeros
            )
    if mask[1]:
        to_weight = lowered_backward(
            x, grad, weight, stride, padding, dilation, groups, [False, True, False]
        )[1]
    if mask[2]:
        to_bias = grad.sum([0, *range(2, 2 + dims)])
    return to_input, to_weight, to_bias
