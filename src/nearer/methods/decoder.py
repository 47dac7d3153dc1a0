"""Decoders that see one vector beside the tokens before, for methods that reconstruct a sentence from its vector.

With one vector to look at, attention has nothing to choose: its softmax is 1, whatever query and key are. So
cross-attention is W_o (W_v s + b_v) + b_o, the same for each token, and neither query nor key would get a gradient.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import SettingError

SMALL_HEAD = 64  # numbers of one head of the small decoder


class CrossAttention(nn.Module):
    """What a block of a decoder does with the vector after it has looked at the tokens before: add it, and norm.

    norm: of the same kind as that of the block's own attention, but fresh.
    """

    def __init__(self, size_in: int, heads: int, norm: nn.Module, dropout: tuple[float, float]) -> None:
        """dropout: of attention, which leaves out whole heads of a token, and of its output."""
        super().__init__()
        width = len(norm.weight)  # type: ignore[arg-type]
        self.heads = heads
        self.value = nn.Linear(size_in, width)
        self.output = nn.Linear(width, width)
        self.norm = copy.deepcopy(norm)
        self.heads_dropout = nn.Dropout(dropout[0])
        self.dropout = nn.Dropout(dropout[1])
        for layer in (self.value, self.output):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        nn.init.ones_(self.norm.weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.norm.bias)  # type: ignore[arg-type]

    def forward(self, states: Tensor, vectors: Tensor) -> Tensor:
        """States (rows, tokens, width) and vectors (rows, size) to states."""
        rows, tokens, _ = states.shape
        value = self.value(vectors.to(self.value.weight.dtype)).view(rows, 1, self.heads, -1)
        attended = value * self.heads_dropout(value.new_ones(rows, tokens, self.heads, 1))
        found: Tensor = self.norm(states + self.dropout(self.output(attended.flatten(2))))
        return found


class TiedDecoder(nn.Module):
    """The encoder's backbone itself, with the same weights, under a causal mask; its blocks have a cross-attention."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        weights: dict[int, Any] = {id(weight): weight for weight in encoder.backbone.parameters()}
        self.backbone = copy.deepcopy(encoder.backbone, weights)
        config: Any = self.backbone.config
        dropout = (_rate(config, "attention_probs_dropout_prob", "attention_dropout"), _rate(config, *HIDDEN_RATES))
        norms = [norm for _, norm in _attentions(self.backbone)]
        self.cross = nn.ModuleList(CrossAttention(encoder.dimension, _heads(config), norm, dropout) for norm in norms)

    def states(self, ids: Tensor, mask: Tensor, *, condition: Tensor) -> Tensor:
        tokens, dtype = ids.shape[1], next(self.cross.parameters()).dtype
        future = torch.full((tokens, tokens), torch.finfo(dtype).min, dtype=dtype, device=ids.device).triu(1)
        # padding comes last, where no token before it looks
        causal = future.expand(len(ids), 1, tokens, tokens)
        with ExitStack() as hooks:
            for (attention, _), cross in zip(_attentions(self.backbone), self.cross, strict=True):
                hooks.callback(attention.register_forward_hook(_adding(cross, condition)).remove)
            if (transformation := _trigram(self.backbone)) is not None:
                hooks.callback(transformation.register_forward_pre_hook(_without_next).remove)
            states: Tensor = self.backbone(input_ids=ids, attention_mask=causal).last_hidden_state
        return states


class SmallDecoder(nn.Module):
    """Layers of its own over the encoder's word embeddings, for backbones that cannot be their own decoder."""

    def __init__(self, encoder: Encoder, layers: int, longest: int) -> None:
        super().__init__()
        table: Any = encoder.backbone.get_input_embeddings()  # type: ignore[operator]
        config: Any = encoder.backbone.config
        self.words = table
        width = encoder.width
        self.enter = nn.Linear(table.weight.shape[1], width)
        self.positions = nn.Embedding(longest, width)
        self.condition = nn.Linear(encoder.dimension, width)
        layer = nn.TransformerDecoderLayer(
            width,
            max(1, width // SMALL_HEAD) if width % SMALL_HEAD == 0 else 1,
            dim_feedforward=4 * width,
            dropout=_rate(config, *HIDDEN_RATES),
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.decoder = nn.TransformerDecoder(layer, layers, norm=nn.LayerNorm(width))
        nn.init.normal_(self.positions.weight, std=0.02)

    def states(self, ids: Tensor, mask: Tensor, *, condition: Tensor) -> Tensor:
        tokens, dtype = ids.shape[1], self.condition.weight.dtype
        embedded = self.enter(self.words(ids).to(dtype)) + self.positions(torch.arange(tokens, device=ids.device))
        future = torch.full((tokens, tokens), torch.finfo(dtype).min, dtype=dtype, device=ids.device).triu(1)
        memory = self.condition(condition.to(dtype))[:, None]  # (rows, 1, width)
        states: Tensor = self.decoder(embedded, memory, tgt_mask=future, tgt_is_causal=True)
        return states


Decoder = TiedDecoder | SmallDecoder


def make_decoder(encoder: Encoder, kind: str, *, layers: int, longest: int) -> Decoder:
    """kind: tied or small; layers: of a small one, and `longest`: how many tokens it reads."""
    if kind == "small":
        return SmallDecoder(encoder, layers, longest).to(encoder.device)
    name = type(encoder.backbone).__name__
    if not list(_attentions(encoder.backbone)):
        raise SettingError(f"decoder: {name} has no blocks like BERT's, so it cannot be tied; set decoder=small.")
    decoder = TiedDecoder(encoder).to(encoder.device)
    if not _is_causal(decoder, encoder):
        raise SettingError(
            f"decoder: {name} sees tokens that it has to predict, so it cannot be tied; set decoder=small."
        )
    return decoder


HIDDEN_RATES = ("hidden_dropout_prob", "dropout")


def _rate(config: Any, *names: str) -> float:
    return float(next((getattr(config, name) for name in names if hasattr(config, name)), 0.0))


def _heads(config: Any) -> int:
    return int(getattr(config, "num_attention_heads", None) or config.n_heads)


def _attentions(backbone: nn.Module) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Of each block what gives the states after attention, its residual and norm, and that norm."""
    for block in backbone.modules():
        attention = getattr(block, "attention", None)
        if isinstance(norm := getattr(block, "sa_layer_norm", None), nn.Module):  # DistilBERT
            yield norm, norm
        elif isinstance(attention, nn.Module):
            inside = getattr(attention, "output", attention)  # BERT and its kin; MPNet has no `output`
            if isinstance(norm := getattr(inside, "LayerNorm", None), nn.Module):
                yield attention, norm


def _adding(cross: nn.Module, condition: Tensor) -> Any:
    def add(module: nn.Module, given: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (cross(output[0], condition), *output[1:])
        return cross(output, condition)

    return add


def _trigram(backbone: nn.Module) -> nn.Module | None:
    """MobileBERT's layer over a token and its two neighbours."""
    config: Any = backbone.config
    if not getattr(config, "trigram_input", False):
        return None
    return backbone.get_submodule("embeddings.embedding_transformation")


def _without_next(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A token's right neighbour, which comes first, is what the decoder has to predict."""
    of_next, *known = given[0].chunk(3, dim=-1)
    return (torch.cat([torch.zeros_like(of_next), *known], dim=-1),)


@torch.no_grad()
def _is_causal(decoder: TiedDecoder, encoder: Encoder) -> bool:
    """Whether a token's state depends on those before it and not on those behind it; found out by trying."""
    vocabulary = len(encoder.tokenizer)
    row = torch.arange(vocabulary // 2, vocabulary // 2 + 4, device=encoder.device)
    first, last = row.clone(), row.clone()
    first[0], last[3] = vocabulary // 3, vocabulary // 3
    rows = torch.stack([row, first, last])
    condition = torch.zeros(3, encoder.dimension, device=encoder.device)
    was_training = decoder.training
    states = decoder.eval().states(rows, torch.ones_like(rows), condition=condition)
    decoder.train(was_training)
    whole, other_first, other_last = states
    scale = 1e-4 * float(whole.abs().max())
    sees_before = (whole[1:] - other_first[1:]).abs().amax(dim=-1).min() > 0
    return bool((whole[:3] - other_last[:3]).abs().max() < scale and sees_before)
