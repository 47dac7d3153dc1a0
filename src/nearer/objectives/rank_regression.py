"""Rank regression: the student's cosines are taught to be given similarities (RankEncoder, Eq. 4 and 6)."""

from __future__ import annotations

from torch import Tensor

from nearer.objectives.lists import check_alike, score_lists


def rank_regression(
    student_scores: Tensor, rank_similarities: Tensor, *, lower: float = 0.5, upper: float = 0.8
) -> Tensor:
    """The mean of  (u_i·u_j − cos(x_i, x_j))²  over the pairs with  lower ≤ u_i·u_j ≤ upper;  0 where there are none.

    Both are (sentences, sentences); lower −1 and upper 1 are Eq. 4. Pairs below are dissimilar, as most of a batch
    are; pairs above are taken for noise (a sentence is such a pair with itself).
    """
    check_alike(student_scores, rank_similarities, name="rank_similarities")
    student = score_lists("student_scores", student_scores)
    wanted = score_lists("rank_similarities", rank_similarities.detach())
    inside = ((wanted >= lower) & (wanted <= upper)).to(student.dtype)
    return (inside * (wanted - student).square()).sum() / inside.sum().clamp(min=1)
