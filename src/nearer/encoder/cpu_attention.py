"""Attention with dropout for training on CPUs without MKL (arm64, above all).

torch's own attention with dropout multiplies batches of matrices, one matrix after the other, each with all cores, and
several of them transposed. Without MKL that takes about ten times as long as what is done here: transposed matrices are
copied first, and each core multiplies matrices of its own. Values and gradients are the same; only the draws of dropout
are others.
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


def use_cpu_attention(encoder: Encoder) -> bool:
    """Let an encoder train with it, where that is of use; returns whether it does."""
    config: Any = encoder.backbone.config
    needed = encoder.device.type == "cpu" and not torch.backends.mkl.is_available()
    if not needed or getattr(config, "_attn_implementation", None) != IMPLEMENTED_BY_TORCH:
        return False
    register()
    config._attn_implementation = ATTENTION
    return True


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
        kept = torch.empty_like(weights).bernoulli_(1 - dropout).div_(1 - dropout)
        context.save_for_backward(query, key, value, weights, kept)
        context.scale = scale
        return _product(weights * kept, value)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
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
