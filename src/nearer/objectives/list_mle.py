"""ListMLE: the likelihood, by the student's scores, of the teacher's whole order (RankCSE, Eq. 5)."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer.objectives.lists import check_alike, score_lists


def list_mle(
    student_scores: Tensor,
    teacher_scores: Tensor,
    *,
    student_temperature: float = 0.05,
    tie_breaker: Tensor | None = None,
    keep_diagonal: bool = False,
) -> Tensor:
    """The mean over i of  − log P(π_i | S(x_i), τ2),  π_i the places of the teacher's list in falling order:

        P(π | s, τ) = Π_k  exp(s_π(k)/τ) / Σ_{l ≥ k} exp(s_π(l)/τ)

    Scores are (sentences, list), by default square and taken without their diagonal. tie_breaker: numbers of the same
    shape, by whose falling order places with equal teacher scores are ordered; without it they keep their order.
    """
    check_alike(student_scores, teacher_scores)
    student = score_lists("student_scores", student_scores, keep_diagonal=keep_diagonal) / student_temperature
    teacher = score_lists("teacher_scores", teacher_scores.detach(), keep_diagonal=keep_diagonal)
    breaker = None
    if tie_breaker is not None:
        breaker = score_lists("tie_breaker", tie_breaker.detach(), keep_diagonal=keep_diagonal)
    ordered = student.gather(-1, falling_order(teacher, breaker))
    # the sum over all that are not placed yet, from the last to the first: stable where cumsum(exp) is not
    rest = torch.logcumsumexp(ordered.flip(-1), dim=-1).flip(-1)
    return (rest - ordered).sum(dim=-1).mean()


def falling_order(scores: Tensor, tie_breaker: Tensor | None) -> Tensor:
    """The places of each row's scores from the highest to the lowest; equal ones by the tie breaker."""
    if tie_breaker is None:
        return scores.argsort(dim=-1, descending=True, stable=True)
    drawn = tie_breaker.argsort(dim=-1, descending=True, stable=True)
    return drawn.gather(-1, scores.gather(-1, drawn).argsort(dim=-1, descending=True, stable=True))
