"""Sentences side by side in one row of tokens, without padding between them.

At 32 tokens padding is a fifth of the work, at 128 three quarters. Everything in a transformer but attention treats
tokens one by one; attention is told where each sentence starts. This is for models whose tokens meet in attention alone
and whose positions are learnt: not for MobileBERT (it reads a token's neighbours) or MPNet (distances).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.encoder.network import SentenceNetwork, cut_embeddings
from nearer.encoder.packed_attention import fits_kernel, is_narrowed, register
from nearer.encoder.padded import check_lengths
from nearer.encoder.pooling import AT_TEMPLATE, FIRST_TOKEN, needs_hidden_states, pool

FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert")


def can_pack(encoder: SentenceNetwork) -> bool:
    config: Any = encoder.backbone.config
    relative = getattr(config, "position_embedding_type", "absolute") not in ("absolute", None)
    return config.model_type in FAMILIES and not relative


class PackedLayout:
    """Rows of tokens as one row whose length is a multiple of `quantum`, so that few lengths occur."""

    mixes = True  # rows of any kind can stand side by side

    def __init__(self, encoder: SentenceNetwork, *, longest: int, quantum: int) -> None:
        config: Any = encoder.backbone.config
        self.padding = encoder.padding_id
        self.longest = longest
        self.quantum = quantum
        self.first_position = encoder.first_position
        on_gpu = encoder.device.type == "cuda"
        self.kernel = on_gpu and fits_kernel(encoder.width // config.num_attention_heads, longest)
        register()

    def arrays(
        self,
        rows: Sequence[NDArray[np.int64]],
        *,
        pooled: Sequence[int] | None = None,
        positions: Sequence[NDArray[np.int64]] | None = None,
        kept_features: Sequence[NDArray[np.bool_]] | None = None,
        kept_tokens: Sequence[NDArray[np.bool_]] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Host arrays: ids and positions (1, tokens), starts (sentences + 1,) of the rows and of what fills up.

        pooled: of each row the index of the token that becomes its vector; positions: of each row those of its tokens;
        kept_features, kept_tokens: of each row what stays of its embedded tokens.
        """
        check_lengths(rows, self.longest)
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
        counted = np.arange(size) - np.repeat(starts[:-1], spans)
        if positions is not None:
            counted[:total] = np.concatenate(positions)
        arrays: dict[str, NDArray[Any]] = {
            "ids": ids,
            "positions": (counted + self.first_position)[None],
            "starts": starts.astype(np.int32),
        }
        if pooled is not None:
            arrays["pooled"] = starts[: len(rows)] + np.asarray(pooled, dtype=np.int64)
        if kept_features is not None:
            arrays["kept_features"] = np.stack(kept_features)
            numbers = np.zeros(size, dtype=np.int64)  # which row a token is of; the filling may be of any
            numbers[:total] = np.repeat(np.arange(len(rows)), lengths)
            arrays["row_numbers"] = numbers
        if kept_tokens is not None:
            kept = np.ones((1, size), dtype=bool)
            kept[0, :total] = np.concatenate(kept_tokens)
            arrays["kept_tokens"] = kept
        return arrays

    def vectors(
        self, encoder: SentenceNetwork, tensors: dict[str, Tensor], rows: int, condition: Tensor | None = None
    ) -> Tensor:
        """Vectors (rows, dimension) of the packed sentences."""
        assert condition is None, "a condition is for modules that give token states"
        pooling = encoder.settings.pooling
        wanted = self._wanted(encoder, tensors, rows)
        if wanted is not None:
            narrowed = is_narrowed(encoder)
            states = self._pass(encoder, tensors, wanted=wanted if narrowed else None).last_hidden_state[0]
            return encoder.project(states if narrowed else states.index_select(0, wanted))
        states = self._pass(encoder, tensors, all_layers=needs_hidden_states(pooling))
        starts = tensors["starts"].long()
        first = starts[:rows]
        spread = torch.arange(self.longest, device=starts.device)
        mask = (spread < (starts[1 : rows + 1] - first)[:, None]).long()
        indices = (first[:, None] + spread) * mask
        layers = None
        if needs_hidden_states(pooling):
            layers = [
                layer[0].index_select(0, indices.flatten()).view(*indices.shape, -1) for layer in states.hidden_states
            ]
        last = states.last_hidden_state[0].index_select(0, indices.flatten()).view(*indices.shape, -1)
        return encoder.project(pool(pooling, last, layers, mask))

    def states(self, module: Any, tensors: dict[str, Tensor], condition: Tensor | None = None) -> Tensor:
        """The last layer's states of all tokens, one after the other (tokens, width).

        module: a network, or one that computes with its `network` and says itself where a condition stands.
        """
        network = module if isinstance(module, SentenceNetwork) else module.network
        given: AbstractContextManager[None] = nullcontext()
        if condition is not None:
            given = module.conditioned(condition, tensors["starts"][: len(condition)].long())
        with given:
            states: Tensor = self._pass(network, tensors).last_hidden_state[0]
        return states

    def _wanted(self, encoder: SentenceNetwork, tensors: dict[str, Tensor], rows: int) -> Tensor | None:
        """The index (rows,) of the one token that becomes each row's vector; None: several do."""
        pooling, starts = encoder.settings.pooling, tensors["starts"].long()
        if "pooled" in tensors:
            return tensors["pooled"]
        if pooling in FIRST_TOKEN:
            return starts[:rows]
        if pooling in AT_TEMPLATE:
            token = encoder.settings.pooled_token
            assert token is not None
            return (starts[:rows] if token >= 0 else starts[1 : rows + 1]) + token
        return None

    def together(self, views: Sequence[Sequence[NDArray[np.int64]]]) -> bool:
        """Nothing is padded, so one pass for all is best."""
        return True

    def indices(self, rows: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
        """The indices of the marked tokens in `states` and in the ids."""
        return np.flatnonzero(np.concatenate(rows))

    def _pass(
        self,
        encoder: SentenceNetwork,
        tensors: dict[str, Tensor],
        *,
        all_layers: bool = False,
        wanted: Tensor | None = None,
    ) -> Any:
        """wanted: the indices of those tokens whose states alone are needed."""
        if "kept_features" in tensors or "kept_tokens" in tensors:
            features, tokens = tensors.get("kept_features"), tensors.get("kept_tokens")
            if features is not None:
                features = features.index_select(0, tensors["row_numbers"])[None]
            left = {name: tensor for name, tensor in tensors.items() if not name.startswith("kept_")}
            with cut_embeddings(encoder.backbone, features, None if tokens is None else tokens[..., None]):
                return self._pass(encoder, left, all_layers=all_layers, wanted=wanted)
        return encoder.backbone(
            input_ids=tensors["ids"],
            position_ids=tensors["positions"],
            output_hidden_states=all_layers,
            packed_starts=tensors["starts"],
            packed_longest=self.longest,
            packed_kernel=self.kernel,
            packed_wanted=wanted,
        )
