"""The contrastive loss of ConSERT, which is SimCLR's."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from nearer.objectives.similarity import similarities


def nt_xent(first: Tensor, second: Tensor, *, temperature: float = 0.1) -> Tensor:
    """The mean over all 2N views u of  − log  exp(cos(u, u⁺)/τ) / Σ_{v ≠ u} exp(cos(u, v)/τ)  (ConSERT, Eq. 1).

    In both directions: u runs over the first views and the second ones, u⁺ is the other view of the same sentence, and
    v all other views of the batch.

    Args:
        first: Vectors of the first views.
        second: Vectors of the second views; row i belongs to row i of the first.
        temperature: τ.

    Shapes:
        first, second: (batch, dimension). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import nt_xent
        >>> round(nt_xent(torch.eye(2), torch.eye(2), temperature=1.0).item(), 4)
        0.5514
    """
    views = torch.cat([first, second])  # (2 · batch, dimension)
    logits = similarities(views, views) / temperature
    logits = logits.masked_fill(torch.eye(len(views), dtype=torch.bool, device=views.device), -torch.inf)
    own = torch.arange(len(views), device=views.device).roll(len(first))
    return cross_entropy(logits, own)
