"""The head that predicts masked tokens, for the auxiliary loss. It is for training only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

# our name: its names in checkpoints of BERT, of RoBERTa and MPNet, of DistilBERT
NAMES = {
    "dense.weight": ("cls.predictions.transform.dense.weight", "lm_head.dense.weight", "vocab_transform.weight"),
    "dense.bias": ("cls.predictions.transform.dense.bias", "lm_head.dense.bias", "vocab_transform.bias"),
    "norm.weight": (
        "cls.predictions.transform.LayerNorm.weight",
        "lm_head.layer_norm.weight",
        "vocab_layer_norm.weight",
    ),
    "norm.bias": ("cls.predictions.transform.LayerNorm.bias", "lm_head.layer_norm.bias", "vocab_layer_norm.bias"),
    "bias": ("cls.predictions.bias", "lm_head.bias", "vocab_projector.bias"),
}


class LanguageHead(nn.Module):
    """Scores over the vocabulary, by the word embeddings that the backbone reads with."""

    def __init__(self, hidden: int, embedding: int, vocabulary: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, embedding)
        self.norm = nn.LayerNorm(embedding, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: Tensor, word_embeddings: Tensor) -> Tensor:
        """Logits (tokens, vocabulary) of states (tokens, hidden)."""
        scores: Tensor = self.norm(gelu(self.dense(states))) @ word_embeddings.T + self.bias
        return scores


def language_head(backbone: nn.Module, folder: Path | None) -> tuple[LanguageHead, bool]:
    """The checkpoint's head if `folder` has one that fits, else a fresh one; says which."""
    embeddings: Any = backbone.get_input_embeddings()  # type: ignore[operator]
    config: Any = backbone.config
    vocabulary, size = embeddings.weight.shape
    head = LanguageHead(int(getattr(config, "hidden_size", None) or config.dim), size, vocabulary)
    found = _saved(folder) if folder is not None else {}
    shapes = {name: value.shape for name, value in head.state_dict().items()}
    fits = {name: value.shape for name, value in found.items()} == shapes
    if fits:
        head.load_state_dict({name: value.float() for name, value in found.items()})
    return head, fits


def _saved(folder: Path) -> dict[str, Tensor]:
    from safetensors import safe_open

    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            keys = set(file.keys())
            for name, spellings in NAMES.items():
                for spelling in keys.intersection(spellings):
                    found[name] = file.get_tensor(spelling)
    return found
