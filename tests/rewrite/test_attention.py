from __future__ import annotations

import torch
import torch.nn.functional as F
from harness import Case, Training, check, check_training
from torch import nn

BACKWARD = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"


def normal(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def additive(random, *shape):
    return normal(random, *shape)


def with_dead_row(random, *shape):
    keep = torch.rand(*shape, generator=random) > 0.4
    keep[..., 1, :] = False
    return torch.where(keep, 0.0, float("-inf")).double()


# query heads, key heads, queries, keys, width, mask, its shape, causal, scale
SETTINGS = [
    (2, 2, 3, 3, 4, None, (), False, None),
    (2, 2, 3, 5, 4, None, (), False, 0.3),
    (2, 2, 5, 3, 4, None, (), True, None),
    (2, 2, 3, 5, 4, None, (), True, None),
    (2, 2, 3, 5, 4, additive, (3, 5), False, None),
    (2, 2, 3, 5, 4, additive, (2, 1, 3, 5), False, None),
    (2, 2, 3, 5, 4, with_dead_row, (2, 2, 3, 5), False, None),
    (4, 2, 3, 5, 4, None, (), False, None),
    (4, 1, 4, 3, 5, None, (), True, 1.5),
    (1, 1, 1, 1, 3, None, (), False, None),
]


def cases(backward):
    for heads, own, queries, keys, width, mask, shape, causal, scale in SETTINGS:
        fixed = mask(torch.Generator().manual_seed(7), *shape) if mask else None

        def make(random, n=heads, m=own, s=queries, t=keys, d=width, c=causal, x=scale, f=fixed):
            q, k, v = (
                normal(random, 2, n, s, d),
                normal(random, 2, m, t, d),
                normal(random, 2, m, t, d),
            )
            if not backward:
                return q, k, v, 0.0, c
            out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                q, k, v, 0.0, c, attn_mask=f, scale=x
            )
            return normal(random, 2, n, s, d), q, k, v, out, logsumexp, 0.0, c

        label = f"heads {heads}/{own} {queries}x{keys} causal={causal} mask={shape} scale={scale}"
        yield label, make, fixed, scale


def test_backward():
    some = [
        Case(label, make, {"scale": scale})
        for label, make, fixed, scale in cases(True)
        if fixed is None
    ]
    check(BACKWARD, some, dtypes=[torch.float32])
    check(BACKWARD, some[1:3], dtypes=[torch.float64])


def sdpa(**options):
    def run(h, *mask):
        q = h.view(2, 3, 2, 4).transpose(1, 2)
        return F.scaled_dot_product_attention(
            q, q * 2 + 1, torch.sin(q) + 1, attn_mask=mask[0] if mask else None, **options
        )

    return lambda: run


def grouped(h):
    q = h.view(2, 3, 4, 2).transpose(1, 2)
    k = torch.tanh(h.view(2, 3, 4, 2)[:, :, :2].transpose(1, 2))
    return F.scaled_dot_product_attention(q, k, k + 1, enable_gqa=True, is_causal=True)


def cross(h):
    q = h.view(2, 3, 2, 4).transpose(1, 2)
    k = torch.cat([q, torch.tanh(q) * 2], 2)
    return F.scaled_dot_product_attention(q, k, k + 1)


def boolean(shape):
    def make(random):
        keep = torch.rand(*shape, generator=random) > 0.4
        keep[..., 0, :] = False
        keep[..., 1, :] = True
        return (keep,)

    return make


class SelfAttention(nn.Module):
    def __init__(self, masked=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.masked = masked

    def forward(self, h):
        mask = (
            torch.triu(torch.full((3, 3), float("-inf"), dtype=h.dtype), 1) if self.masked else None
        )
        return self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 6, dropout=0.0, batch_first=True)

    def forward(self, h):
        return self.layer(h, h * 2)


def encoder(**options):
    return lambda: nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, batch_first=True, **options)


X = (2, 3, 8)


def test_training():
    check_training(
        [
            Training("plain", sdpa(), X),
            Training("scale", sdpa(scale=0.7), X),
            Training("causal", sdpa(is_causal=True), X),
            Training("float mask", sdpa(), X, extra=lambda r: (normal(r, 3, 3),)),
            Training("float mask per head", sdpa(), X, extra=lambda r: (normal(r, 2, 2, 3, 3),)),
            Training("bool mask, a row of it empty", sdpa(), X, extra=boolean((3, 3))),
            Training("bool mask per head", sdpa(), X, extra=boolean((2, 2, 3, 3))),
            Training("grouped heads", lambda: grouped, X),
            Training("more keys than queries", lambda: cross, X),
            Training("multi-head", SelfAttention, X),
            Training("multi-head, masked", lambda: SelfAttention(True), X),
        ],
        ["attention_backward"],
        dtypes=[torch.float32],
    )


def test_training_in_float64():
    rewrites = ["attention_backward", "sum_over_two_dims"]
    check_training([Training("multi-head", SelfAttention, X)], rewrites, dtypes=[torch.float64])


def test_training_of_layers():
    """In float32 only: torch's layer norm backward divides by numbers that lowering rounds."""
    check_training(
        [
            Training("encoder", encoder(), X),
            Training("encoder, gelu, norm first", encoder(activation="gelu", norm_first=True), X),
            Training("decoder", Decoder, X),
        ],
        ["attention_backward"],
        dtypes=[torch.float32],
    )


def test_weights_or_logsumexp():
    """The backward takes the weights of the explicit forward, or the kernel's logsumexp."""
    from graphcheck.rewrite.ops.attention import backward, forward

    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for label, make, fixed, scale in cases(True):
        grad, q, k, v, out, logsumexp, _, causal = make(torch.Generator().manual_seed(2))
        options = {"attn_mask": fixed, "scale": scale}
        want = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, k, v, out, logsumexp, 0.0, causal, **options
        )
        keys = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        scores = q @ keys.transpose(-2, -1) * (scale or q.shape[-1] ** -0.5)
        if causal:
            scores = scores.masked_fill(~torch.ones_like(scores).tril().bool(), float("-inf"))
        weights = torch.softmax(scores + (0 if fixed is None else fixed), -1).nan_to_num(0)
        for saved in (logsumexp, weights):
            have = backward(grad, q, k, v, out, saved, 0.0, causal, **options)
            for one, other in zip(have, want, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11, msg=label)
        for one, other in zip(
            forward(q, k, v, 0.0, causal, **options),
            op(q, k, v, 0.0, causal, **options),
            strict=True,
        ):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11, msg=label)
