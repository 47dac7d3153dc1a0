"""Dropout, and attention under it, for training on a CPU.

Torch draws a number of 64 bits for each value that may be dropped, which takes a quarter of a step; 16 bits are enough.
Its attention under dropout multiplies matrices one after the other, each with all cores, several of them transposed.
Without MKL (arm64, above all) that takes ten times as long as what is done here: transposed matrices are copied first,
and each core multiplies matrices of its own. Values and gradients are the same; only the draws are others.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from nearer.encoder.encoder import Encoder

# The name in transformers' configuration
ATTENTION = "nearer_cpu"
IMPLEMENTED_BY_TORCH = "sdpa"


def train_on_cpu(encoder: Encoder) -> None:
    """Let an encoder that lies on a CPU drop and attend in this way."""
    for module in encoder.modules():
        if type(module) is nn.Dropout:
            module.__class__ = CpuDropout
    config: Any = encoder.backbone.config
    if getattr(config, "_attn_implementation", None) == IMPLEMENTED_BY_TORCH:
        register()
        config._attn_implementation = ATTENTION


class CpuDropout(nn.Dropout):
    """As torch's, with cheaper draws."""

    def forward(self, values: Tensor) -> Tensor:
        if not self.training or not self.p or values.device.type != "cpu":
            return super().forward(values)
        return values * draw_kept(values, self.p)


def draw_kept(values: Tensor, rate: float) -> Tensor:
    """For each value 0 at the given rate, else what brings the mean back to 1. The rate is met to within 1/65 536."""
    dropped = round(rate * 2**16)
    draws = torch.empty(-(-values.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = draws.view(torch.int16)[: values.numel()] >= dropped - 2**15
    return kept.to(values.dtype).mul_(2**16 / max(1, 2**16 - dropped)).view(values.shape)


def register() -> None:
    """Make it known to transformers, with the masks that torch's own attention gets."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, cpu_attention)
    AttentionMaskInterface.register(ATTENTION, ALL_MASK_ATTENTION_FUNCTIONS[IMPLEMENTED_BY_TORCH])


def cpu_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What transformers calls: queries, keys, values (batch, heads, tokens, size) → (batch, tokens, heads, size).

    What is more than plain attention in both directions under dropout is left to torch.
    """
    causal = others.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    plain = key.shape == query.shape and others.get("position_bias") is None and not others.get("softcap")
    if not dropout or not plain or (causal and attention_mask is None):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
        return found
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output: Tensor = AttentionUnderDropout.apply(query, key, value, attention_mask, dropout, scale)  # type: ignore
    return output.transpose(1, 2), None


class AttentionUnderDropout(torch.autograd.Function):
    """softmax(q kᵀ · scale + mask) under dropout, times v; every product has its matrices in order."""

    @staticmethod
    def forward(
        context: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scale: float
    ) -> Tensor:
        scores = _product(query * scale, _transposed(key))  # (batch, heads, queries, keys)
        if mask is not None:
            scores = scores.masked_fill_(~mask, -torch.inf) if mask.dtype == torch.bool else scores.add_(mask)
        weights = torch.softmax(scores, dim=-1)
        # a row without anything to look at is padding: nobody asks for its vector
        if mask is not None:
            weights = weights.nan_to_num_(0.0)
        kept = draw_kept(weights, dropout)
        context.save_for_backward(query, key, value, weights, kept)
        context.scale = scale
        return _product(weights * kept, value)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, kept = context.saved_tensors
        gradient = gradient.contiguous()
        of_value = _product(_transposed(weights * kept), gradient)
        of_weights = _product(gradient, _transposed(value)).mul_(kept)
        # of the softmax: w (g − Σ g w)
        of_scores = of_weights.sub_((of_weights * weights).sum(dim=-1, keepdim=True)).mul_(weights).mul_(context.scale)
        return _product(of_scores, key), _product(_transposed(of_scores), query), of_value, None, None, None


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Of matrices, for each sentence and head. Each core takes a share of them.

    torch takes one matrix after the other, each with all cores, which wait for each other most of the time.
    """
    left, right = (each.flatten(0, 1).contiguous() for each in (first, second))
    products = left.new_empty(len(left), left.shape[1], right.shape[2])
    shares = torch.tensor_split(torch.arange(len(left)), torch.get_num_threads())
    spans = [slice(int(share[0]), int(share[-1]) + 1) for share in shares if len(share)]
    list(_workers(len(spans)).map(lambda span: torch.bmm(left[span], right[span], out=products[span]), spans))
    return products.view(*first.shape[:-1], second.shape[-1])


@functools.cache
def _workers(count: int) -> ThreadPoolExecutor:
    """Threads in which a product has one core to itself."""
    return ThreadPoolExecutor(count, "nearer-attention", initializer=torch.set_num_threads, initargs=(1,))


def _transposed(matrices: Tensor) -> Tensor:
    return matrices.transpose(-2, -1).contiguous()
