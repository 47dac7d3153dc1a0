"""The order of a ranking list as the only target: what refinement learns without a judge."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer.errors import InputError
from nearer.objectives.similarity import at_least_float32


def list_order(student_scores: Tensor, *, student_temperature: float = 0.05) -> Tensor:
    """The mean over all rows j but the last of  − log P(j + 1, j + 2, … | s^j, τ2),  the order that the list asks for.

    Row j is looked at from its own sentence on, where the list says that similarities fall (Ranking sentences, Eq. 5);
    of the sentences before it the list says nothing. P is that of ListMLE.

    Args:
        student_scores: s, the student's similarities between the sentences of each list.
        student_temperature: τ2.

    Shapes:
        student_scores: (…, list, list). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import list_order
        >>> falling = torch.tensor([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
        >>> bool(list_order(falling) < list_order(-falling))
        True
    """
    size = student_scores.shape[-1]
    if student_scores.dim() < 2 or student_scores.shape[-2] != size or size < 3:
        raise InputError(
            f"student_scores: must be square, of lists of 3 at least; {tuple(student_scores.shape)} given."
        )
    scores = at_least_float32(student_scores) / student_temperature
    rest = torch.logcumsumexp(scores.flip(-1), dim=-1).flip(-1)  # over all that are still to come
    indices = torch.arange(size, device=scores.device)
    later = indices > indices[:, None]
    return (rest - scores).masked_fill(~later, 0).sum(dim=-1)[..., :-1].mean()
