"""The contrastive loss of SimCSE."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from nearer.objectives.similarity import Similarity, similarities


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    hard_negatives: Tensor | None = None,
    *,
    temperature: float = 0.05,
    hard_negative_weight: float = 1.0,
    similarity: Similarity = "cosine",
) -> Tensor:
    """The mean over i of (SimCSE, Eq. 1 and 4; with hard negatives Eq. 5 and 8)

        − log  exp(sim(h_i, h_i⁺)/τ)  /  Σ_j [ exp(sim(h_i, h_j⁺)/τ) + α^[i=j] exp(sim(h_i, h_j⁻)/τ) ]

    One direction only, anchors against positives. All tensors are (batch, dimension); row i of each belongs
    together. The weight α counts for an anchor's own hard negative; other rows' are ordinary negatives. The dot
    product is taken as it is, without a temperature (the "N/A" of Table D.1), when `temperature` is 1.
    """
    logits = similarities(anchors, positives, similarity) / temperature  # (batch, batch)
    if hard_negatives is not None:
        hard = similarities(anchors, hard_negatives, similarity) / temperature  # (batch, batch)
        if hard_negative_weight != 1:
            own = torch.eye(len(hard), dtype=hard.dtype, device=hard.device)
            hard = hard + math.log(hard_negative_weight) * own
        logits = torch.cat([logits, hard], dim=1)  # (batch, 2 · batch)
    return contrast(logits)


def contrast(logits: Tensor) -> Tensor:
    """The mean over i of  − log softmax(logits)_ii:  for those who have the similarities already."""
    return cross_entropy(logits, torch.arange(len(logits), device=logits.device))
