"""Kernels for short packed sentences on a GPU: attention, dropout masks, the gradient of a table of embeddings.

At 32 tokens the usual attention kernels work on tiles of 128 and leave most of them empty, random numbers cost more
than the dropout they serve, and tables sort for each gradient anew. These do one sentence and head in one program,
eight decisions for each draw of random bits, and no sum in an order that could change from run to run.

Imported only where Triton is: on machines with a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _halves(seed, offsets):
    """Eight 16-bit numbers for each offset, along the last axis: (…, n) becomes (…, 8 n)."""
    a, b, c, d = tl.randint4x(seed, offsets, n_rounds=7)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    return tl.join(words & 0xFFFF, (words >> 16) & 0xFFFF)


@triton.jit
def _probabilities(
    q_ptr, k_ptr, seed_ptr, first, length, head, sentence, q_stride, k_stride, scale, threshold, rescale,
    HEADS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Softmax of one sentence and head, and what dropout makes of it: 0 or 1 / (1 − rate)."""
    token = tl.arange(0, BLOCK)
    rows = (first + token)[:, None].to(tl.int64)
    columns = (head * SIZE + tl.arange(0, SIZE))[None, :]
    inside = (token < length)[:, None]
    q = tl.load(q_ptr + rows * q_stride + columns, mask=inside, other=0.0)
    k = tl.load(k_ptr + rows * k_stride + columns, mask=inside, other=0.0)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    scores = tl.where((token < length)[None, :], scores, float("-inf"))
    scores = tl.exp(scores - tl.max(scores, 1)[:, None])
    p = scores / tl.sum(scores, 1)[:, None]
    keep = tl.full((BLOCK, BLOCK), 1.0, tl.float32)
    if threshold > 0:
        drawn = tl.arange(0, BLOCK // 8)
        offsets = (sentence * HEADS + head) * (BLOCK * BLOCK // 8) + token[:, None] * (BLOCK // 8) + drawn[None, :]
        numbers = tl.reshape(_halves(tl.load(seed_ptr), offsets), (BLOCK, BLOCK))
        keep = tl.where(numbers >= threshold, rescale, 0.0)
    return q, k, p, keep, rows, columns, inside


@triton.jit
def _attention_forward(
    q_ptr, k_ptr, v_ptr, out_ptr, starts_ptr, seed_ptr, q_stride, k_stride, v_stride, out_stride,
    scale, threshold, rescale,
    HEADS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    sentence, head = tl.program_id(0), tl.program_id(1)
    first = tl.load(starts_ptr + sentence)
    length = tl.load(starts_ptr + sentence + 1) - first
    if length > 0:
        _q, _k, p, keep, rows, columns, inside = _probabilities(
            q_ptr, k_ptr, seed_ptr, first, length, head, sentence, q_stride, k_stride, scale, threshold, rescale,
            HEADS, SIZE, BLOCK, PRECISION,
        )  # fmt: skip
        v = tl.load(v_ptr + rows * v_stride + columns, mask=inside, other=0.0)
        out = tl.dot((p * keep).to(v.dtype), v, input_precision=PRECISION)
        tl.store(out_ptr + rows * out_stride + columns, out.to(v.dtype), mask=inside)


@triton.jit
def _attention_backward(
    q_ptr, k_ptr, v_ptr, g_ptr, dq_ptr, dk_ptr, dv_ptr, starts_ptr, seed_ptr,
    q_stride, k_stride, v_stride, g_stride, out_stride, scale, threshold, rescale,
    HEADS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Everything is computed again from q, k, v: for short sentences that is cheaper than keeping it."""
    sentence, head = tl.program_id(0), tl.program_id(1)
    first = tl.load(starts_ptr + sentence)
    length = tl.load(starts_ptr + sentence + 1) - first
    if length > 0:
        q, k, p, keep, rows, columns, inside = _probabilities(
            q_ptr, k_ptr, seed_ptr, first, length, head, sentence, q_stride, k_stride, scale, threshold, rescale,
            HEADS, SIZE, BLOCK, PRECISION,
        )  # fmt: skip
        v = tl.load(v_ptr + rows * v_stride + columns, mask=inside, other=0.0)
        g = tl.load(g_ptr + rows * g_stride + columns, mask=inside, other=0.0)
        dv = tl.dot(tl.trans((p * keep).to(v.dtype)), g, input_precision=PRECISION)
        dp = tl.dot(g, tl.trans(v), input_precision=PRECISION) * keep
        ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(v.dtype)
        dq = tl.dot(ds, k, input_precision=PRECISION)
        dk = tl.dot(tl.trans(ds), q, input_precision=PRECISION)
        tl.store(dq_ptr + rows * out_stride + columns, dq.to(v.dtype), mask=inside)
        tl.store(dk_ptr + rows * out_stride + columns, dk.to(v.dtype), mask=inside)
        tl.store(dv_ptr + rows * out_stride + columns, dv.to(v.dtype), mask=inside)


def _constants(q: Tensor, longest: int, rate: float) -> tuple[tuple[int, float], dict[str, int | str]]:
    block = max(16, triton.next_power_of_2(longest))
    shape = {
        "HEADS": q.shape[1],
        "SIZE": q.shape[2],
        "BLOCK": block,
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",  # without a meaning for bfloat16
        "num_warps": 2 if block <= 32 else 4,
    }
    return drop(rate), shape


def drop(rate: float) -> tuple[int, float]:
    """Numbers of 16 bits below the first are dropped; the second makes up for them. The rate is met to 1 / 65536."""
    threshold = round(rate * 65536)
    return threshold, 65536 / (65536 - threshold)


@torch.library.custom_op("nearer::short_attention", mutates_args=())
def short_attention(qkv: Tensor, starts: Tensor, seed: Tensor, longest: int, rate: float, scale: float) -> Tensor:
    """Attention within each sentence: queries, keys and values (tokens, 3, heads, size) to (tokens, heads, size).

    Sentence s stands at tokens starts[s] : starts[s + 1] and is no longer than `longest`.
    """
    qkv = qkv.contiguous()  # heads and their entries must stand side by side
    q, k, v = qkv.unbind(1)
    out = torch.empty(q.shape, dtype=qkv.dtype, device=qkv.device)
    drop, shape = _constants(q, longest, rate)
    _attention_forward[(len(starts) - 1, q.shape[1])](
        q, k, v, out, starts, seed, q.stride(0), k.stride(0), v.stride(0), out.stride(0), scale, *drop, **shape
    )
    return out


@short_attention.register_fake
def _(qkv, starts, seed, longest, rate, scale):
    tokens, _three, heads, size = qkv.shape
    return torch.empty((tokens, heads, size), dtype=qkv.dtype, device=qkv.device)


@torch.library.custom_op("nearer::short_attention_backward", mutates_args=())
def short_attention_backward(
    g: Tensor, qkv: Tensor, starts: Tensor, seed: Tensor, longest: int, rate: float, scale: float
) -> Tensor:
    g, qkv = g.contiguous(), qkv.contiguous()
    gradient = torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)
    (q, k, v), (dq, dk, dv) = qkv.unbind(1), gradient.unbind(1)
    drop, shape = _constants(q, longest, rate)
    _attention_backward[(len(starts) - 1, q.shape[1])](
        q, k, v, g, dq, dk, dv, starts, seed, q.stride(0), k.stride(0), v.stride(0), g.stride(0), dq.stride(0),
        scale, *drop, **shape,
    )  # fmt: skip
    return gradient


@short_attention_backward.register_fake
def _(g, qkv, starts, seed, longest, rate, scale):
    return torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)


def _remember(ctx, inputs, output):
    qkv, starts, seed, *ctx.rest = inputs
    ctx.save_for_backward(qkv, starts, seed)


def _gradients(ctx, g):
    return short_attention_backward(g, *ctx.saved_tensors, *ctx.rest), None, None, None, None, None


short_attention.register_autograd(_gradients, setup_context=_remember)


@triton.jit
def _dropout_keep(out_ptr, seed_ptr, count, threshold, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    offsets = tl.program_id(0) * (BLOCK // 8) + tl.arange(0, BLOCK // 8)
    numbers = tl.reshape(_halves(tl.load(seed_ptr), offsets), (BLOCK,))
    indices = start + tl.arange(0, BLOCK)
    tl.store(out_ptr + indices, numbers >= threshold, mask=indices < count)


@torch.library.custom_op("nearer::keep", mutates_args=())
def keep(like: Tensor, seed: Tensor, rate: float) -> Tensor:
    """Which entries of `like` dropout keeps: the same ones for the same seed."""
    out = torch.empty(like.shape, dtype=torch.bool, device=like.device)
    _dropout_keep[(triton.cdiv(out.numel(), 4096),)](out.view(torch.int8), seed, out.numel(), drop(rate)[0], BLOCK=4096)
    return out


@keep.register_fake
def _(like, seed, rate):
    return torch.empty(like.shape, dtype=torch.bool, device=like.device)


@triton.jit
def _embedding_gradient(
    g_ptr, order_ptr, sorted_ptr, out_ptr, count, width, padding, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The program at the first index of an id sums all rows of that id, in their order."""
    index = tl.program_id(0)
    token = tl.load(sorted_ptr + index)
    before = tl.load(sorted_ptr + index - 1, mask=index > 0, other=-1)
    if (token != before) & (token != padding):
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        start = index
        same = ROWS
        while same == ROWS:
            indices = start + tl.arange(0, ROWS)
            own = tl.load(sorted_ptr + indices, mask=indices < count, other=-1) == token
            rows = tl.load(order_ptr + indices, mask=own, other=0)
            inside = own[:, None] & (columns < width)[None, :]
            total += tl.load(g_ptr + rows[:, None] * width + columns[None, :], mask=inside, other=0.0).to(tl.float32)
            start += ROWS
            same = tl.sum(own.to(tl.int32), 0)
        tl.store(out_ptr + token * width + columns, tl.sum(total, 0), mask=columns < width)


def table_gradient(g: Tensor, ids: Tensor, entries: int, padding: int) -> Tensor:
    """The gradient (entries, width), float32, of a table that was read at `ids` (tokens,), from `g` (tokens, width)."""
    g = g.contiguous()
    count, width = g.shape
    out = torch.zeros(entries, width, dtype=torch.float32, device=g.device)
    ordered, order = torch.sort(ids, stable=True)
    _embedding_gradient[(count, triton.cdiv(width, 256))](
        g, order, ordered, out, count, width, padding, ROWS=16, COLUMNS=256
    )
    return out
