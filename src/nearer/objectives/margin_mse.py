"""Margin MSE: the student's margins between passages are taught to be the judge's (GPL, Eq. 2)."""

from __future__ import annotations

from torch import Tensor

from nearer.objectives.lists import check_alike, score_lists


def margin_mse(student_scores: Tensor, judge_scores: Tensor) -> Tensor:
    """The mean over i, and over all pairs j < k of a list, of  ( (s_ij − s_ik) − (t_ij − t_ik) )²

    GPL has lists of two, a positive and a negative. Of longer ones the pairs need not be formed: with d = s − t, their
    mean is twice the (unbiased) variance of d within the list.

    Args:
        student_scores: s_ij, how near query i is to passage j of its list.
        judge_scores: t_ij, the judge's scores; no gradient flows into them. A number added to a list's scores changes
            nothing, a factor does.

    Shapes:
        student_scores, judge_scores: (queries, list). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import margin_mse
        >>> judge = torch.tensor([[5.0, 1.0]])
        >>> margin_mse(judge + 7, judge).item(), margin_mse(torch.tensor([[3.0, 1.0]]), judge).item()
        (0.0, 4.0)
    """
    check_alike(student_scores, judge_scores, name="judge_scores")
    student = score_lists("student_scores", student_scores)
    judge = score_lists("judge_scores", judge_scores.detach())
    return 2 * (student - judge).var(dim=-1, correction=1).mean()
