"""Fused ranking: a list's own order and a judge's similarities become one target, whose order the student learns.

Ranking sentences, §3.2 and Algorithm 1. Matrices are (…, list, list): row j holds how near each sentence of a list is
to its j-th one.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from nearer.errors import InputError
from nearer.objectives.list_mle import list_mle
from nearer.objectives.similarity import at_least_float32

Variant = Literal["paper", "released"]


def fused_ranking(
    student_scores: Tensor,
    teacher_scores: Tensor,
    *,
    rank_strength: float = 0.5,
    student_temperature: float = 0.05,
    variant: Variant = "paper",
    keep_diagonal: bool = True,
) -> Tensor:
    """The mean over all rows of all lists of  − log P(φ̂^j | s^j, τ2)  (Eq. 8), φ̂ the judge's scores after `fuse`.

    The paper sums over a list's rows; the mean makes steps of several or longer lists alike in size, and Adam does not
    see the factor.

    Args:
        student_scores: s, the student's similarities between the sentences of each list.
        teacher_scores: φ, those of the judge; no gradient flows into them.
        rank_strength: ω, how far a score moves towards what the list's order asks for.
        student_temperature: τ2.
        variant: "paper", or "released" for the authors' code; see `fuse`.
        keep_diagonal: Rank a sentence's similarity with itself too, as Eq. 8 does. It is the first of its row and thus
            pushes all others away from 1.

    Shapes:
        student_scores, teacher_scores: (…, list, list). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import fused_ranking
        >>> judge = torch.tensor([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
        >>> bool(fused_ranking(judge, judge) < fused_ranking(-judge, judge))
        True
    """
    if student_scores.shape != teacher_scores.shape:
        shapes = f"{tuple(student_scores.shape)} and {tuple(teacher_scores.shape)}"
        raise InputError(f"teacher_scores: must have the shape of student_scores; {shapes} given.")
    target = fuse(teacher_scores.detach(), rank_strength=rank_strength, variant=variant)
    rows = [scores if keep_diagonal else _without_diagonal(scores) for scores in (student_scores, target)]
    student, wanted = (scores.flatten(end_dim=-2) for scores in rows)  # (lists · list, list)
    return list_mle(student, wanted, student_temperature=student_temperature, keep_diagonal=True)


def fuse(scores: Tensor, *, rank_strength: float, variant: Variant = "paper") -> Tensor:
    """Φ̂ of Eq. 6 and 7: each of a judge's scores moves towards what its index in the list asks for.

    Row j is looked at from its own sentence on, where the list says that scores fall (Eq. 5): sentence k should have
    rank r(k) = k − j, and by the scores has rank r̂(k). φ^j[r(k)] is the score of rank r(k), the value that k would
    have if the same scores stood in the list's order. (Taken as the entry at index r(k) of the row as it stands it
    would be φ_jk itself, and nothing would ever move.) So r(k) < r̂(k) exactly when that value is the higher one, and
    both cases of Eq. 6 are one:

        φ̂_jk = φ_jk + sign(a) · log(ω·|a| + 1),   a = φ^j[r(k)] − φ_jk

    Algorithm 1 is the same with a matrix A of these differences, filled symmetrically; as printed its difference has
    the other sign, which would move scores away from the list's order. The diagonal stays, as do equal scores.

    Args:
        scores: φ, the judge's similarities between the sentences of each list.
        rank_strength: ω; 0 leaves the scores as they are.
        variant: "released" takes the sign from a comparison of r̂(k) with the column k instead of with k − j.

    Shapes:
        scores: (…, list, list), and so is what is returned.

    Examples:
        >>> import torch
        >>> from nearer.objectives import fuse
        >>> judge = torch.tensor([[1.0, 0.2, 0.6], [0.2, 1.0, 0.5], [0.6, 0.5, 1.0]])
        >>> [round(score, 2) for score in fuse(judge, rank_strength=0.5)[0].tolist()]
        [1.0, 0.38, 0.42]
    """
    if scores.dim() < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] < 2:
        raise InputError(f"scores: must be square, of lists of 2 at least; {tuple(scores.shape)} given.")
    scores = at_least_float32(scores)
    size = scores.shape[-1]
    indices = torch.arange(size, device=scores.device)
    steps = indices - indices[:, None]  # (list, list): k − j
    later = steps > 0
    # a sentence is first in its own row whatever its score, so the others are sorted and their ranks begin at 1
    ordered, order = scores.masked_fill(~later, -torch.inf).sort(dim=-1, descending=True, stable=True)
    asked_for = ordered.gather(-1, (steps - 1).clamp(min=0).expand_as(scores))
    gap = (asked_for - scores).masked_fill(~later, 0)
    direction = gap.sign()
    if variant == "released":
        found = order.argsort(dim=-1) + 1  # r̂, where `later`
        direction = 1 - 2 * (found < indices).to(scores.dtype)
    shift = direction * torch.log1p(rank_strength * gap.abs())
    return scores + shift + shift.transpose(-1, -2)


def _without_diagonal(scores: Tensor) -> Tensor:
    """(…, list, list − 1): each sentence's scores with the others."""
    size = scores.shape[-1]
    indices = torch.arange(size - 1, device=scores.device).expand(size, size - 1)
    others = indices + (indices >= torch.arange(size, device=scores.device)[:, None])
    return scores.gather(-1, others.expand(*scores.shape[:-1], size - 1))
