"""Similarity of two sets of vectors, the logits of every objective."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn.functional import normalize

Similarity = Literal["cosine", "dot"]


def similarities(first: Tensor, second: Tensor, kind: Similarity = "cosine") -> Tensor:
    """All pairs (first, second), in float32 whatever the vectors came in; of (…, first, size) within each set."""
    first, second = at_least_float32(first), at_least_float32(second)
    if kind == "cosine":
        first, second = normalize(first, dim=-1), normalize(second, dim=-1)
    return first @ second.mT


def at_least_float32(tensor: Tensor) -> Tensor:
    return tensor if tensor.element_size() >= 4 else tensor.float()
