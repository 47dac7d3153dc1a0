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
    """The mean over i of  − log P(π_i | S(x_i), τ2),  π_i the indices of the teacher's list in falling order:

        P(π | s, τ) = Π_k  exp(s_π(k)/τ) / Σ_{l ≥ k} exp(s_π(l)/τ)

    Args:
        student_scores: S(x_i), the student's similarities of sentence i to the sentences of its list.
        teacher_scores: The teacher's, of which only the order counts; no gradient flows into them.
        student_temperature: τ2. Smaller: the order of the nearest sentences counts more.
        tie_breaker: Numbers by whose falling order sentences with equal teacher scores are ordered; without it they
            keep their order.
        keep_diagonal: Whether a sentence's score with itself is part of its list.

    Shapes:
        student_scores, teacher_scores, tie_breaker: (sentences, list); square unless keep_diagonal. The loss is a
        scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import list_mle
        >>> teacher = torch.tensor([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
        >>> bool(list_mle(teacher, teacher) < list_mle(-teacher, teacher))
        True
    """
    check_alike(student_scores, teacher_scores)
    student = score_lists("student_scores", student_scores, keep_diagonal=keep_diagonal) / student_temperature
    teacher = score_lists("teacher_scores", teacher_scores.detach(), keep_diagonal=keep_diagonal)
    breaker = None
    if tie_breaker is not None:
        breaker = score_lists("tie_breaker", tie_breaker.detach(), keep_diagonal=keep_diagonal)
    ordered = student.gather(-1, falling_order(teacher, breaker))
    # the sum over all that are still to come, from the last to the first: stable where cumsum(exp) is not
    rest = torch.logcumsumexp(ordered.flip(-1), dim=-1).flip(-1)
    return (rest - ordered).sum(dim=-1).mean()


def falling_order(scores: Tensor, tie_breaker: Tensor | None) -> Tensor:
    """The indices of each row's scores from the highest to the lowest; equal ones by the tie breaker."""
    if tie_breaker is None:
        return scores.argsort(dim=-1, descending=True, stable=True)
    drawn = tie_breaker.argsort(dim=-1, descending=True, stable=True)
    return drawn.gather(-1, scores.gather(-1, drawn).argsort(dim=-1, descending=True, stable=True))
