"""A student whose embeddings are a table, and columns of its tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class TableModel(nn.Module):
    """Token i is row i of a table; dropout as in a transformer. What came out is kept."""

    def __init__(self, vectors: Tensor, dropout: float = 0.0) -> None:
        super().__init__()
        self.table = nn.Parameter(vectors.clone())
        self.dropout = nn.Dropout(dropout)
        self.outputs: list[Tensor] = []

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        vectors = self.dropout(self.table[features["input_ids"][:, 0]])
        self.outputs.append(vectors)
        return {**features, "sentence_embedding": vectors}


def column(*rows: int) -> dict[str, Tensor]:
    """A text column as the trainer hands it over: one sentence a row, each of one token."""
    ids = torch.tensor(rows)[:, None]
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def vectors(rows: int, width: int, seed: int) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
