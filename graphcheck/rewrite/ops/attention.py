"""Scaled dot product attention of the CPU, forward and backward, in explicit softmax form."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import number, times, total, wide_dtype, widened

__all__ = ["REWRITES", "backward", "forward"]

_LOWEST = float("-inf")


def _per_query_head(tensor: Any, heads: int) -> Any:
    """Keys or values [B, Hk, S, D] repeated so that every query head has its own."""
    batch, own, length, width = tensor.shape
    if own == heads:
        return tensor
    shape = [batch, own, heads // own, length, width]
    return tensor.unsqueeze(2).expand(shape).reshape([batch, heads, length, width])


def _summed_per_head(gradient: Any, like: Any) -> Any:
    """The transpose of `_per_query_head`."""

    batch, heads, length, width = gradient.shape
    own = like.shape[1]
    if own == heads:
        return gradient
    grouped = gradient.reshape([batch, own, heads // own, length, width])
    return total(grouped, [2])


def _scores(q: Any, k: Any, is_causal: bool, mask: Any, scale: float) -> Any:
    """q k^T scaled, with -inf where a query must not look."""
    import torch

    scores = times(torch.matmul(q, k.transpose(-2, -1)), scale)
    if is_causal:
        rows = torch.arange(q.shape[-2], device=q.device).unsqueeze(1)
        columns = torch.arange(k.shape[-2], device=q.device).unsqueeze(0)
        scores = torch.where(columns <= rows, scores, number(_LOWEST, scores))
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = torch.where(mask, scores, number(_LOWEST, scores))
        else:
            scores = scores + mask.to(scores.dtype)
    return scores


def _weights(scores: Any, masked: bool) -> tuple[Any, Any]:
    """Softmax over keys, and where a row is masked out entirely (its weights are zero)."""
    import torch

    weights = torch.ops.aten._softmax.default(scores, -1, False)
    if not masked:
        return weights, None
    dead = torch.ops.aten.amax.default(scores, [-1], True) == _LOWEST
    return torch.where(dead, number(0, weights), weights), dead


def _scale(query: Any, scale: float | None) -> float:
    return float(query.shape[-1]) ** -0.5 if scale is None else scale


def forward(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Any:
    """(result [B, H, L, D], logsumexp of the scores [B, H, L])."""
    import torch

    if dropout_p:
        return NotImplemented
    heads = query.shape[1]
    q = widened(query)
    k = _per_query_head(widened(key), heads)
    v = _per_query_head(widened(value), heads)
    scores = _scores(q, k, is_causal, attn_mask, _scale(query, scale))
    weights, dead = _weights(scores, attn_mask is not None)
    highest = torch.ops.aten.amax.default(scores, [-1], True)
    if dead is not None:
        highest = torch.where(dead, number(0, highest), highest)
    mass = total(torch.exp(scores - highest), [-1], True)
    if dead is not None:
        mass = torch.where(dead, number(1, mass), mass)
    logsumexp = (highest + torch.log(mass)).squeeze(-1)
    return torch.matmul(weights, v).to(query.dtype), logsumexp


def backward(
    grad_out: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    logsumexp: Any,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Any:
    """Gradients of query, key and value.

    The joint graph's forward is torch's explicit form, which hands on its weights [B, H, L, S]
    where the kernel hands on logsumexp [B, H, L]; the rank tells which. The weights are used
    where they are precise enough, else they are computed again.
    """
    import torch

    if dropout_p:
        return NotImplemented
    heads = query.shape[1]
    factor = _scale(query, scale)
    g, q = widened(grad_out), widened(query)
    k = _per_query_head(widened(key), heads)
    v = _per_query_head(widened(value), heads)
    if logsumexp.dim() == 4 and logsumexp.dtype == wide_dtype(query):
        weights = logsumexp
    else:
        scores = _scores(q, k, is_causal, attn_mask, factor)
        weights, _ = _weights(scores, attn_mask is not None)
    by_value = torch.matmul(weights.transpose(-2, -1), g)
    by_weight = torch.matmul(g, v.transpose(-2, -1))
    product = by_weight * weights
    by_score = product - weights * total(product, [-1], True)
    by_query = times(torch.matmul(by_score, k), factor)
    by_key = times(torch.matmul(by_score.transpose(-2, -1), q), factor)
    return (
        _laid_out(by_query).to(query.dtype),
        _laid_out(_summed_per_head(by_key, key)).to(key.dtype),
        _laid_out(_summed_per_head(by_value, value)).to(value.dtype),
    )


def _laid_out(gradient: Any) -> Any:
    """[B, H, L, D] in memory as [B, L, H, D], as the kernel leaves it; later views count on it."""
    return gradient.transpose(1, 2).contiguous().transpose(1, 2)


REWRITES = (
    Rewrite(
        name="attention_forward",
        op="aten._scaled_dot_product_flash_attention_for_cpu.default",
        formula="P = softmax(scale q k^T + mask), a fully masked row is 0; y = P v",
        source="Vaswani et al., 2017, equation 1",
        decompose=forward,
        memory="the scores, batch x heads x queries x keys, which the fused kernel never holds",
    ),
    Rewrite(
        name="attention_backward",
        op="aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
        formula="dv = P^T g; dP = g v^T; dS = P (dP - sum(dP P)); "
        "dq = scale dS k; dk = scale dS^T q; heads that share a key add up",
        source="chain rule on Vaswani et al., 2017, equation 1; Dao et al., 2022, appendix B.2",
        decompose=backward,
        memory="the weights, batch x heads x queries x keys, live from forward to backward",
    ),
)
