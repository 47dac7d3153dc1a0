"""Rank regression: the student's cosines are taught to be given similarities (RankEncoder, Eq. 4 and 6)."""

from __future__ import annotations

from torch import Tensor

from nearer.objectives.lists import check_alike, score_lists


def rank_regression(
    student_scores: Tensor, rank_similarities: Tensor, *, lower: float = 0.5, upper: float = 0.8
) -> Tensor:
    """The mean of  (u_i·u_j − cos(x_i, x_j))²  over the pairs with  lower ≤ u_i·u_j ≤ upper;  0 where there are none.

    Pairs below are dissimilar, as most of a batch are; pairs above are taken for noise (a sentence is such a pair with
    itself).

    Args:
        student_scores: cos(x_i, x_j), the student's cosines.
        rank_similarities: u_i·u_j, the similarities of the rank vectors; no gradient flows into them.
        lower: The least similarity of a pair that counts; −1 with an upper of 1 is Eq. 4.
        upper: The greatest similarity of a pair that counts.

    Shapes:
        student_scores, rank_similarities: (sentences, sentences). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import rank_regression
        >>> wanted = torch.tensor([[1.0, 0.7], [0.7, 1.0]])
        >>> round(rank_regression(wanted - 0.1, wanted).item(), 4)
        0.01
    """
    check_alike(student_scores, rank_similarities, name="rank_similarities")
    student = score_lists("student_scores", student_scores)
    wanted = score_lists("rank_similarities", rank_similarities.detach())
    inside = ((wanted >= lower) & (wanted <= upper)).to(student.dtype)
    return (inside * (wanted - student).square()).sum() / inside.sum().clamp(min=1)
