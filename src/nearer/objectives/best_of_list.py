"""A contrast for lists: the best passage of a query's list against the batch, false negatives left out."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from nearer.errors import InputError
from nearer.objectives.lists import score_lists


def best_of_list(scores: Tensor, best: Tensor, excluded: Tensor, *, temperature: float = 0.05) -> Tensor:
    """The mean over i of  − log  exp(s_ib/τ) / Σ_j [j = b or not excluded_ij] exp(s_ij/τ),  b = best_i.

    Args:
        scores: s_ij, how near query i is to passage j of the batch.
        best: Of each query the index of its best passage.
        excluded: Which passages are no negatives of a query: those of its own list, and what may answer it as well.
        temperature: τ. Smaller: the nearest negatives count more.

    Shapes:
        scores, excluded: (queries, passages). best: (queries,). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import best_of_list
        >>> scores, best = torch.tensor([[0.5, 0.9, 0.1]]), torch.tensor([0])
        >>> nothing, second = torch.tensor([[False, False, False]]), torch.tensor([[False, True, False]])
        >>> bool(best_of_list(scores, best, second) < best_of_list(scores, best, nothing))
        True
    """
    scores = score_lists("scores", scores)
    if excluded.shape != scores.shape or best.shape != scores.shape[:1]:
        shapes = f"{tuple(scores.shape)}, {tuple(excluded.shape)} and {tuple(best.shape)}"
        raise InputError(f"excluded, best: must fit the scores; {shapes} given.")
    columns = torch.arange(scores.shape[1], device=scores.device)
    left_out = excluded & (columns != best[:, None])
    return cross_entropy((scores / temperature).masked_fill(left_out, -torch.inf), best)
