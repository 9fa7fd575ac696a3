"""Attention written out: the backward of the fused op has no kernel."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphcheck.layers.dropout import mask_dropout

__all__ = ["ExplicitMultiheadAttention", "explicit_attention"]


def _as_bias(mask: Tensor, dtype: torch.dtype, *, kept: bool) -> Tensor:
    """A mask as something to add to the scores; `kept` is what a True in a bool mask means."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    blocked = ~mask if kept else mask
    return torch.zeros_like(blocked, dtype=dtype).masked_fill(blocked, -math.inf)


def _weights(scores: Tensor, bias: Tensor | None, is_causal: bool) -> Tensor:
    if is_causal:
        rows = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(-1)
        columns = torch.arange(scores.shape[-1], device=scores.device)
        scores = scores.masked_fill(columns > rows, -math.inf)
    if bias is not None:
        scores = scores + bias
    return torch.softmax(scores, -1)


def explicit_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`F.scaled_dot_product_attention` as softmax(q @ k.T * scale) @ v.

    A row whose every key is masked gives NaN, as softmax does.
    """
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    bias = None if attn_mask is None else _as_bias(attn_mask, query.dtype, kept=True)
    weights = _weights(query @ key.transpose(-2, -1) * factor, bias, is_causal)
    return mask_dropout(weights, dropout_p) @ value


class ExplicitMultiheadAttention(nn.MultiheadAttention):  # type: ignore[misc]
    """`nn.MultiheadAttention` with its attention written out; takes no bias_k, bias_v, zero_attn.

    A row whose every key is masked gives NaN, as softmax does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._check()

    def _check(self) -> None:
        if self.bias_k is not None or self.add_zero_attn:
            raise ValueError("ExplicitMultiheadAttention takes neither add_bias_kv nor zero_attn")

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As `nn.MultiheadAttention.forward`."""
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        batched = query.dim() == 3
        if not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = (self._heads(x) for x in self._projected(query, key, value))
        bias = self._bias(attn_mask, key_padding_mask, q)
        weights = _weights(q @ k.transpose(-2, -1) / math.sqrt(self.head_dim), bias, False)
        weights = mask_dropout(weights, self.dropout, self.training)
        output = (weights @ v).transpose(1, 2).flatten(2)
        output = F.linear(output, self.out_proj.weight, self.out_proj.bias)
        if not batched:
            output = output.squeeze(0)
        elif not self.batch_first:
            output = output.transpose(0, 1)
        if not need_weights:
            return output, None
        shown = weights.mean(1) if average_attn_weights else weights
        return output, shown if batched else shown.squeeze(0)

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        if self._qkv_same_embed_dim:
            matrices = self.in_proj_weight.chunk(3)
        else:
            matrices = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        shifts = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(
            F.linear(x, matrix, shift)
            for x, matrix, shift in zip((query, key, value), matrices, shifts, strict=True)
        )

    def _heads(self, x: Tensor) -> Tensor:
        """[N, L, E] as [N, heads, L, E / heads]."""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def _bias(self, mask: Tensor | None, padding: Tensor | None, q: Tensor) -> Tensor | None:
        """Both masks as one term [N or 1, heads or 1, L or 1, S]."""
        terms = []
        if mask is not None:
            term = _as_bias(mask, q.dtype, kept=False)
            terms.append(term if term.dim() == 2 else term.unflatten(0, (-1, self.num_heads)))
        if padding is not None:
            terms.append(_as_bias(padding, q.dtype, kept=False)[:, None, None, :])
        return sum(terms[1:], terms[0]) if terms else None
