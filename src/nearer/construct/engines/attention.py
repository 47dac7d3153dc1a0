"""Attention for decoding: the queries that share a key head stand beside each other, so keys are never repeated.

transformers repeats keys and values for each query head when there is a mask, which at one new token for each row is
most of the memory traffic of attention (seven-fold for Qwen2.5-0.5B).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

NAME = "nearer_grouped"


def grouped_attention(
    module: nn.Module,
    query: Tensor,  # (rows, heads, new, dim)
    key: Tensor,  # (rows, key heads, columns, dim)
    value: Tensor,
    attention_mask: Tensor | None,  # (rows or 1, 1, new, columns), added to the scores; None: causal
    scaling: float | None = None,
    **other: Any,
) -> tuple[Tensor, None]:
    """transformers' contract of an attention function."""
    for name in ("softcap", "s_aux", "position_bias"):
        if other.get(name) is not None:
            raise ValueError(f"{name} is not computed here")  # the model's own attention is used then
    rows, heads, new, _ = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(rows, key.shape[1], groups * new, query.shape[-1])
    if attention_mask is None and new > 1:
        attention_mask = causal_mask(new, key.shape[2] - new, query.dtype, query.device)
    if attention_mask is not None and new > 1:
        attention_mask = attention_mask.repeat(1, 1, groups, 1)
    mixed = scaled_dot_product_attention(folded, key, value, attn_mask=attention_mask, scale=scaling)
    return mixed.reshape(rows, heads, new, value.shape[-1]).transpose(1, 2).contiguous(), None


def causal_mask(new: int, before: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(1, 1, new, before + new): each new token sees all that was before, itself, and the new ones ahead of it."""
    seen = torch.ones(new, before + new, dtype=torch.bool, device=device).tril(before)
    return additive(seen, dtype)[None, None]


def additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where seen, −∞ where not: understood by all attention functions."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))


def register() -> None:
    """Make it known to transformers by its name; masks that nobody has given are made as for its own."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
