"""A lower bound of the mutual information between sentences and their parts, as a loss (IS-BERT; Deep InfoMax)."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import softplus

from nearer.objectives.similarity import at_least_float32


def mutual_information(scores: Tensor, own: Tensor, real: Tensor) -> Tensor:
    """Minus the Jensen–Shannon estimate (IS-BERT, Eq. 4): parts are to score high with their own sentence alone.

    L = 1/(T (B − 1)) Σ over others of (softplus(r) − log 2) − 1/T Σ over own of (log 2 − softplus(−r)).

    Args:
        scores: r, each part of a sentence against each sentence.
        own: Whether the part is one of the sentence's.
        real: Which parts count.

    Shapes:
        scores: (parts, sentences). own: (parts, sentences), of truth values. real: (parts,). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import mutual_information
        >>> own = torch.eye(2, dtype=torch.bool)
        >>> mutual_information(torch.zeros(2, 2), own, torch.ones(2, dtype=torch.bool)).item()
        0.0
    """
    scores = at_least_float32(scores)
    parts = real.sum().clamp(min=1)
    counted = real[:, None]
    near = ((math.log(2) - softplus(-scores)) * (own & counted)).sum() / parts
    far = ((softplus(scores) - math.log(2)) * (~own & counted)).sum() / (parts * max(1, scores.shape[1] - 1))
    return far - near
