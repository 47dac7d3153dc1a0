"""ListNet: the student's top-one distribution is taught to be the teacher's (RankCSE, Eq. 4)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import log_softmax, softmax

from nearer.objectives.lists import check_alike, score_lists


def list_net(
    student_scores: Tensor,
    teacher_scores: Tensor,
    *,
    student_temperature: float = 0.025,
    teacher_temperature: float = 0.0125,
    keep_diagonal: bool = False,
) -> Tensor:
    """The mean over i of  − Σ_j softmax(Sᵀ(x_i)/τ3)_j · log softmax(S(x_i)/τ2)_j

    Scores are (sentences, list). By default they are square and their diagonal, the score of the positive pair, is
    left out: it would take up most of the teacher's distribution (the paper's first footnote).
    """
    check_alike(student_scores, teacher_scores)
    student = score_lists("student_scores", student_scores, keep_diagonal=keep_diagonal)
    teacher = score_lists("teacher_scores", teacher_scores.detach(), keep_diagonal=keep_diagonal)
    wanted = softmax(teacher / teacher_temperature, dim=-1)
    return -(wanted * log_softmax(student / student_temperature, dim=-1)).sum(dim=-1).mean()
