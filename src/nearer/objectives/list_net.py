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

    By default the diagonal, the score of the positive pair, is left out: it would take up most of the teacher's
    distribution (the paper's first footnote).

    Args:
        student_scores: S(x_i), the student's similarities of sentence i to the sentences of its list.
        teacher_scores: Sᵀ(x_i), the teacher's; no gradient flows into them.
        student_temperature: τ2.
        teacher_temperature: τ3. Smaller: the order of the nearest sentences counts more.
        keep_diagonal: Whether a sentence's score with itself is part of its list.

    Shapes:
        student_scores, teacher_scores: (sentences, list); square unless keep_diagonal. The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import list_net
        >>> teacher = torch.tensor([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
        >>> bool(list_net(teacher, teacher) < list_net(-teacher, teacher))
        True
    """
    check_alike(student_scores, teacher_scores)
    student = score_lists("student_scores", student_scores, keep_diagonal=keep_diagonal)
    teacher = score_lists("teacher_scores", teacher_scores.detach(), keep_diagonal=keep_diagonal)
    wanted = softmax(teacher / teacher_temperature, dim=-1)
    return -(wanted * log_softmax(student / student_temperature, dim=-1)).sum(dim=-1).mean()
