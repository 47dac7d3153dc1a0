"""Contrastive tension: two encoders read a pair of sentences each, and tell whether it is the same one twice."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from nearer.objectives.similarity import at_least_float32


def contrastive_tension(scores: Tensor, pairs: Tensor) -> Tensor:
    """The mean binary cross-entropy of chosen pairs (CT, Eq. 1 and 2): is it the same sentence twice?

    −1/|P| Σ over (i, j) of P: log σ(z_ij) if i = j, else log(1 − σ(z_ij)),  z_ij = f_1(s_i) · f_2(s_j).

    Args:
        scores: z, each sentence by the first encoder against each by the second.
        pairs: Which of them count.

    Shapes:
        scores: (batch, batch). pairs: (batch, batch), of truth values. The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import contrastive_tension
        >>> scores = torch.tensor([[50.0, -50.0], [0.0, 50.0]])
        >>> pairs = torch.tensor([[True, True], [False, True]])
        >>> round(contrastive_tension(scores, pairs).item(), 6)
        0.0
    """
    scores = at_least_float32(scores)
    same = torch.eye(len(scores), dtype=scores.dtype, device=scores.device)
    return binary_cross_entropy_with_logits(scores, same, weight=pairs.to(scores.dtype), reduction="sum") / pairs.sum()
