"""Sentences side by side in one row of tokens, without padding between them.

At 32 tokens padding is a fifth of the work, at 128 three quarters. Everything in a transformer but attention treats
tokens one by one; attention is told where each sentence starts. This is for models whose tokens meet in attention alone
and whose positions are learnt: not for MobileBERT (it reads a token's neighbours) or MPNet (distances).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from nearer.encoder.pooling import FIRST_TOKEN, needs_hidden_states, pool

if TYPE_CHECKING:
    from nearer.encoder.encoder import Encoder

# The name of our attention in transformers' configuration
ATTENTION = "nearer_packed"
# Tokens of a sentence that our kernel takes; for longer ones flash attention is faster
LONGEST = 64
FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert")
# These count positions from behind the padding token's place
OFFSET_FAMILIES = ("roberta", "xlm-roberta", "camembert")


def can_pack(encoder: Encoder) -> bool:
    config: Any = encoder.backbone.config
    relative = getattr(config, "position_embedding_type", "absolute") not in ("absolute", None)
    return config.model_type in FAMILIES and not relative


class PackedLayout:
    """Rows of tokens as one row whose length is a multiple of `quantum`, so that few lengths occur."""

    def __init__(self, encoder: Encoder, *, longest: int, quantum: int) -> None:
        config: Any = encoder.backbone.config
        self.padding = encoder.padding_id
        self.longest = longest
        self.quantum = quantum
        self.offset = config.pad_token_id + 1 if config.model_type in OFFSET_FAMILIES else 0
        on_gpu = encoder.device.type == "cuda"
        self.kernel = on_gpu and fits_kernel(encoder.width // config.num_attention_heads, longest)
        register()

    def arrays(self, rows: Sequence[NDArray[np.int64]]) -> dict[str, NDArray[Any]]:
        """Host arrays: ids and positions (1, tokens), starts (sentences + 1,) of the rows and of what fills up."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        total = int(lengths.sum())
        size = -(-total // self.quantum) * self.quantum
        ids = np.full((1, size), self.padding, dtype=np.int64)
        ids[0, :total] = np.concatenate(rows)
        # the filling is made of sentences too, so that attention computes something finite there
        filling = -(-(self.quantum - 1) // self.longest)
        ends = np.minimum(total + self.longest * np.arange(1, filling + 1), size)
        starts = np.concatenate([[0], np.cumsum(lengths), ends])
        spans = np.diff(starts)
        positions = np.arange(size) - np.repeat(starts[:-1], spans) + self.offset
        return {"ids": ids, "positions": positions[None], "starts": starts.astype(np.int32)}

    def vectors(self, encoder: Encoder, tensors: dict[str, Tensor], rows: int) -> Tensor:
        """Vectors (rows, dimension) of the packed sentences."""
        pooling = encoder.settings.pooling
        if _is_narrowed(encoder):
            vectors = self._pass(encoder, tensors, first=rows).last_hidden_state[0]
            return encoder.project(pool(pooling, vectors[:, None], None, torch.ones_like(vectors[:, :1])))
        states = self._pass(encoder, tensors, all_layers=needs_hidden_states(pooling))
        starts = tensors["starts"].long()
        first = starts[:rows]
        if pooling in FIRST_TOKEN:
            places, mask = first[:, None], torch.ones_like(first)[:, None]
        else:
            spread = torch.arange(self.longest, device=starts.device)
            mask = (spread < (starts[1 : rows + 1] - first)[:, None]).long()
            places = (first[:, None] + spread) * mask
        layers = None
        if needs_hidden_states(pooling):
            layers = [
                layer[0].index_select(0, places.flatten()).view(*places.shape, -1) for layer in states.hidden_states
            ]
        last = states.last_hidden_state[0].index_select(0, places.flatten()).view(*places.shape, -1)
        return encoder.project(pool(pooling, last, layers, mask))

    def states(self, encoder: Encoder, tensors: dict[str, Tensor]) -> Tensor:
        """The last layer's states of all tokens, one after the other (tokens, width)."""
        states: Tensor = self._pass(encoder, tensors).last_hidden_state[0]
        return states

    def places(self, rows: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
        """Where the marked tokens stand in `states`."""
        return np.flatnonzero(np.concatenate(rows))

    def _pass(
        self, encoder: Encoder, tensors: dict[str, Tensor], *, all_layers: bool = False, first: int | None = None
    ) -> Any:
        """first: of how many sentences the first token alone is wanted."""
        return encoder.backbone(
            input_ids=tensors["ids"],
            position_ids=tensors["positions"],
            output_hidden_states=all_layers,
            packed_starts=tensors["starts"],
            packed_longest=self.longest,
            packed_kernel=self.kernel,
            packed_first=first,
        )


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


class FirstTokenAttention(nn.Module):
    """The attention of a last block of which the first tokens alone are wanted.

    Keys and values are needed of all tokens, everything after attention of the first ones only: with [CLS] pooling,
    three quarters of the last block's work is never looked at.
    """

    def __init__(self, replaced: Any) -> None:
        super().__init__()
        self.self = replaced.self
        self.output = replaced.output

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **packed: Any
    ) -> tuple[Tensor, None]:
        attended, _ = self.self(hidden_states, attention_mask=attention_mask, **packed)
        if packed["packed_first"] is not None:
            places = packed["packed_starts"][: packed["packed_first"]]
            attended, hidden_states = attended.index_select(1, places), hidden_states.index_select(1, places)
        return self.output(attended, hidden_states), None


def narrow_last_block(encoder: Encoder) -> None:
    """Let the last block of a BERT-like backbone compute first tokens alone, where these alone are pooled."""
    blocks = getattr(getattr(encoder.backbone, "encoder", None), "layer", None)
    attention = getattr(blocks[-1], "attention", None) if blocks else None
    if encoder.settings.pooling in FIRST_TOKEN and can_fuse(getattr(attention, "self", None)):
        blocks[-1].attention = FirstTokenAttention(attention)  # type: ignore[index]


def _is_narrowed(encoder: Encoder) -> bool:
    return any(isinstance(module, FirstTokenAttention) for module in encoder.backbone.modules())


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
