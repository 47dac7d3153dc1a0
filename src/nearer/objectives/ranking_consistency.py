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

    scores (batch, batch): row i is S(x_i), the first view of sentence i against all second views. Column i is then
    S(x_i)', its second view against all first ones. It is between 0 and 2 log 2.
    """
    lists = score_lists("scores", scores) / temperature
    first, second = log_softmax(lists, dim=-1), log_softmax(lists.T, dim=-1)
    middle = torch.logaddexp(first, second) - math.log(2)
    divergence = first.exp() * (first - middle) + second.exp() * (second - middle)
    return divergence.sum(dim=-1).mean()
