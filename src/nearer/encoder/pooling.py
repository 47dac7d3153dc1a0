"""From the backbone's token states to one vector a sentence.

| name | reads |
| --- | --- |
| `cls` | first token of the last layer; the head, where there is one, stays in use at inference |
| `cls_before_head` | the same token; the head is for training only (unsupervised SimCSE) |
| `mean` | mean over the tokens of the last layer |
| `first_last_mean` | mean over the tokens of the first block and the last (SimCSE's raw BERT: 60.73) |
| `embedding_last_mean` | mean over the tokens of the embedding layer and the last (raw BERT: 56.70) |
| `last_two_mean` | mean over the tokens of the last two blocks |
| `max`, `mean_sqrt_length`, `weighted_mean`, `last_token` | as sentence-transformers has them |
| `mask` | the mask token of the model's template (`template.py`) |

Names joined by `+` give the vectors side by side: `cls+mean`.

A sentence without a token that counts (an empty one where the tokenizer adds no special tokens, or nothing but a prompt
that is left out) has zeros, as in sentence-transformers; also with `max`, where that gives minus infinity. Its first
token is what stands first: the prompt's, or the padding that stands in for no tokens at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from nearer.errors import ModelError, SettingError, did_you_mean

# pooling: the two layers that are averaged before the mean over tokens (0 is the embedding layer)
LAYER_PAIRS = {
    "first_last_mean": (1, -1),
    "embedding_last_mean": (0, -1),
    "last_two_mean": (-2, -1),
}
FIRST_TOKEN = ("cls", "cls_before_head")
# Read at a token of a template, which a model needs then
AT_TEMPLATE = ("mask",)
POOLINGS = (*FIRST_TOKEN, "mean", *LAYER_PAIRS, "max", "mean_sqrt_length", "weighted_mean", "last_token")


def check_pooling(pooling: str) -> str:
    """The pooling's name, if it is one; else an error with the nearest right name."""
    names = pooling.split("+")
    for name in names:
        if name not in (*POOLINGS, *AT_TEMPLATE):
            hint = did_you_mean(name, (*POOLINGS, *AT_TEMPLATE))
            raise SettingError(f"pooling: {name!r} is not one of {', '.join((*POOLINGS, *AT_TEMPLATE))}.{hint}")
        alone = (*LAYER_PAIRS, *AT_TEMPLATE, "cls_before_head")
        if len(names) > 1 and (name in alone or names.count(name) > 1):
            raise SettingError(f"pooling: {name!r} cannot be joined with others ({pooling!r}).")
    return pooling


def needs_hidden_states(pooling: str) -> bool:
    return pooling in LAYER_PAIRS


def pool(pooling: str, last: Tensor, layers: Sequence[Tensor] | None, mask: Tensor, token: int | None = None) -> Tensor:
    """Pool one batch.

    last: the last layer's states (batch, tokens, hidden); layers: all states from the embedding layer on, for
    poolings that read two of them; mask: 1 for the tokens that count (batch, tokens); token: of `mask` pooling the
    index of the mask token, from 0 or below 0 from a sentence's end.
    """
    if pooling in AT_TEMPLATE:
        assert token is not None
        return _token_at(last, token_index(mask, token))
    vectors = [_pool_one(name, last, layers, mask) for name in pooling.split("+")]
    return vectors[0] if len(vectors) == 1 else torch.cat(vectors, dim=-1)


def _pool_one(name: str, last: Tensor, layers: Sequence[Tensor] | None, mask: Tensor) -> Tensor:
    if name in FIRST_TOKEN:
        return _token_at(last, mask.int().argmax(dim=1))
    if name == "last_token":
        found = _token_at(last, mask.shape[1] - 1 - mask.flip(1).int().argmax(dim=1))
        return _zero_where_empty(found, mask)
    if name == "max":
        found = last.masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).amax(dim=1)
        return _zero_where_empty(found, mask)
    if name in LAYER_PAIRS:
        assert layers is not None
        first, second = LAYER_PAIRS[name]
        return _weighted_mean((layers[first] + layers[second]) / 2, mask.float())
    if name == "weighted_mean":
        positions = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        return _weighted_mean(last, mask * positions.float())
    mean = _weighted_mean(last, mask.float())
    return mean * mask.sum(dim=1, keepdim=True).sqrt() if name == "mean_sqrt_length" else mean


def _token_at(states: Tensor, position: Tensor) -> Tensor:
    rows = torch.arange(states.shape[0], device=states.device)  # not len(), which tracing would fix
    return states[rows, position]


def token_index(mask: Tensor, token: int) -> Tensor:
    """The index (batch,) of a token that is counted from each row's begin or, below 0, from its end."""
    if token >= 0:
        return torch.full_like(mask[:, 0], token, dtype=torch.long)
    return mask.shape[1] - mask.flip(1).int().argmax(dim=1) + token


def _zero_where_empty(vectors: Tensor, mask: Tensor) -> Tensor:
    return vectors.masked_fill(mask.sum(dim=1, keepdim=True) == 0, 0)


def attended(mask: Tensor) -> Tensor:
    """The mask (batch, tokens) that attention needs: a row without tokens looks at the padding at its first index,
    since what attention makes of nothing at all differs from model to model and with the width of the batch."""
    first = mask[:, :1] | (mask.sum(dim=1, keepdim=True) == 0).to(mask.dtype)
    return torch.cat([first, mask[:, 1:]], dim=1)


def _weighted_mean(states: Tensor, weights: Tensor) -> Tensor:
    weights = weights.unsqueeze(-1)  # (batch, tokens, 1), float32 also under lower precision
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


class WeightedLayers(nn.Module):
    """For weights that no pooling of ours has a name for (`first_last_mean` and its like are poolings).

    weights: of the embedding layer and of each block, in this order; they are divided by their sum.
    """

    layer_weights: torch.Tensor

    def __init__(self, backbone: nn.Module, weights: Sequence[float]) -> None:
        super().__init__()
        self.backbone = backbone
        self.register_buffer("layer_weights", torch.tensor(weights, dtype=torch.float32))
        if not torch.isfinite(self.layer_weights / self.layer_weights.sum()).all():
            raise ModelError(f"the layers' weights {list(weights)} have no finite sum other than 0.")

    @property
    def config(self) -> Any:
        return self.backbone.config

    def get_input_embeddings(self) -> Any:
        return self.backbone.get_input_embeddings()  # type: ignore[operator]

    def forward(self, *, output_hidden_states: bool = False, **inputs: Any) -> SimpleNamespace:
        """output_hidden_states: is taken as said; all layers are needed in any case."""
        layers = self.backbone(output_hidden_states=True, **inputs).hidden_states
        if len(layers) != len(self.layer_weights):
            raise ModelError(f"the model has {len(layers)} layers of states, weights are given for {self.given}.")
        shares = self.layer_weights / self.layer_weights.sum()
        mean = sum(share * layer for share, layer in zip(shares, layers, strict=True))
        return SimpleNamespace(last_hidden_state=mean, hidden_states=layers if output_hidden_states else None)

    @property
    def given(self) -> int:
        return len(self.layer_weights)
