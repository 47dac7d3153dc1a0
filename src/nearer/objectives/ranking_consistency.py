"""Ranking consistency: both views of a sentence rank the others alike (RankCSE, Eq. 2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from nearer.objectives.lists import score_lists


def ranking_consistency(scores: Tensor, *, temperature: float = 0.05) -> Tensor:
    """The mean over i of  JS( softmax(S(x_i)/τ1) ‖ softmax(S(x_i)'/τ1) ),  JS as the paper has it, without the half:

        JS(p ‖ q) = Σ_j  p_j log( 2 p_j / (p_j + q_j) ) + q_j log( 2 q_j / (p_j + q_j) )

    It is between 0 and 2 log 2.

    Args:
        scores: Row i is S(x_i), the similarities of the first view of sentence i to all second views. Column i is then
            S(x_i)', those of its second view to all first ones.
        temperature: τ1. Smaller: the order of the nearest sentences counts more.

    Shapes:
        scores: (batch, batch). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import ranking_consistency
        >>> scores = torch.tensor([[1.0, 0.3], [0.3, 1.0]])
        >>> round(ranking_consistency(scores).item(), 6)
        0.0
    """
    lists = score_lists("scores", scores) / temperature
    first, second = log_softmax(lists, dim=-1), log_softmax(lists.T, dim=-1)
    middle = torch.logaddexp(first, second) - math.log(2)
    divergence = first.exp() * (first - middle) + second.exp() * (second - middle)
    return divergence.sum(dim=-1).mean()
