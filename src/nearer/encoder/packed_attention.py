"""Attention within packed sentences, and the parts of a BERT-like model that are exchanged to use it well."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from nearer.encoder.network import SentenceNetwork
from nearer.encoder.pooling import AT_TEMPLATE, FIRST_TOKEN

# The name of our attention in transformers' configuration
ATTENTION = "nearer_packed"
# Tokens of a sentence that our kernel takes; for longer ones flash attention is faster
LONGEST = 64


def register() -> None:
    """Make our attention known to transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(ATTENTION, packed_attention)
    AttentionMaskInterface.register(ATTENTION, _no_mask)


def _no_mask(*arguments: Any, **named: Any) -> None:
    """The starts say everything that a mask would."""


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **packed: Any,
) -> tuple[Tensor, None]:
    """transformers' contract: query, key, value (1, heads, tokens, size) to (1, tokens, heads, size)."""
    qkv = torch.stack((query, key, value), dim=-2).squeeze(0).transpose(0, 1)  # (tokens, heads, 3, size)
    seed = getattr(getattr(module, "dropout", None), "seed", None)
    return attend(qkv.transpose(1, 2), dropout, scaling, seed, **packed).unsqueeze(0), None


def attend(
    qkv: Tensor,
    rate: float,
    scaling: float | None,
    seed: Tensor | None,
    *,
    packed_starts: Tensor,
    packed_longest: int,
    packed_kernel: bool,
    **unused: Any,
) -> Tensor:
    """Attention within each sentence: (tokens, 3, heads, size) to (tokens, heads, size)."""
    scale = qkv.shape[-1] ** -0.5 if scaling is None else scaling
    if packed_kernel:
        if seed is None:
            seed = torch.randint(2**31 - 1, (1,), device=qkv.device)
        out: Tensor = torch.ops.nearer.short_attention(qkv, packed_starts, seed, packed_longest, rate, scale)
        return out
    q, k, v = qkv.unbind(1)
    if qkv.device.type == "cuda" and qkv.dtype != torch.float32:
        spans = (packed_starts, packed_starts, packed_longest, packed_longest)
        outputs: Any = torch.ops.aten._flash_attention_forward(q, k, v, *spans, rate, False, False, scale=scale)
        return outputs[0]  # type: ignore[no-any-return]
    return _by_mask(q, k, v, packed_starts, rate, scale)


class FusedSelfAttention(nn.Module):
    """Stands in for a BERT-like self-attention on packed tokens: one projection for queries, keys and values."""

    def __init__(self, replaced: Any) -> None:
        super().__init__()
        self.heads = int(replaced.num_attention_heads)
        self.dropout = replaced.dropout
        self.scaling = replaced.scaling
        self.parts = (replaced.query, replaced.key, replaced.value)  # a tuple: their weights are no longer ours
        self.weight: Tensor
        self.bias: Tensor

    def forward(self, hidden_states: Tensor, **packed: Any) -> tuple[Tensor, None]:
        projected = linear(hidden_states.squeeze(0), self.weight, self.bias)
        qkv = projected.view(projected.shape[0], 3, self.heads, -1)
        rate = self.dropout.p if self.training else 0.0
        out = attend(qkv, rate, self.scaling, getattr(self.dropout, "seed", None), **packed)
        return out.flatten(1).unsqueeze(0), None


class WantedTokenAttention(nn.Module):
    """The attention of a last block of which one token of each sentence is wanted.

    Keys and values are needed of all tokens, everything after attention of the wanted ones only: pooled at [CLS] or
    [MASK], three quarters of the last block's work is never looked at.
    """

    def __init__(self, replaced: Any) -> None:
        super().__init__()
        self.self = replaced.self
        self.output = replaced.output

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **packed: Any
    ) -> tuple[Tensor, None]:
        attended, _ = self.self(hidden_states, attention_mask=attention_mask, **packed)
        wanted = packed["packed_wanted"]
        if wanted is not None:
            attended, hidden_states = attended.index_select(1, wanted), hidden_states.index_select(1, wanted)
        return self.output(attended, hidden_states), None


def narrow_last_block(encoder: SentenceNetwork) -> None:
    """Let the last block of a BERT-like backbone compute one token of a sentence, where that alone is pooled."""
    blocks = getattr(getattr(encoder.backbone, "encoder", None), "layer", None)
    attention = getattr(blocks[-1], "attention", None) if blocks else None
    if encoder.settings.pooling in (*FIRST_TOKEN, *AT_TEMPLATE) and can_fuse(getattr(attention, "self", None)):
        blocks[-1].attention = WantedTokenAttention(attention)  # type: ignore[index]


def is_narrowed(encoder: SentenceNetwork) -> bool:
    return any(isinstance(module, WantedTokenAttention) for module in encoder.backbone.modules())


def can_fuse(module: object) -> bool:
    projections = [getattr(module, name, None) for name in ("query", "key", "value")]
    alike = all(isinstance(each, nn.Linear) and each.bias is not None for each in projections)
    return alike and type(module).__name__.endswith("SelfAttention") and hasattr(module, "num_attention_heads")


def have_kernels() -> bool:
    """Whether Triton, which the kernels are written in, is there; it comes with torch for GPUs."""
    return importlib.util.find_spec("triton") is not None


def fits_kernel(size: int, longest: int) -> bool:
    if longest > LONGEST or size < 16 or size & (size - 1) or not have_kernels():
        return False
    import nearer.encoder.kernels  # noqa: F401 makes torch.ops.nearer

    return True


def _by_mask(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, dropout: float, scale: float) -> Tensor:
    """Every token against every other, with those of other sentences masked: right anywhere, but slow."""
    sentence = torch.searchsorted(starts[1:].long(), torch.arange(len(q), device=q.device), right=True)
    mask = sentence[:, None] == sentence[None, :]
    q, k, v = (states.transpose(0, 1).unsqueeze(0) for states in (q, k, v))  # (1, heads, tokens, size)
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)
    return out.squeeze(0).transpose(0, 1)
