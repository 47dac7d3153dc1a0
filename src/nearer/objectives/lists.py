"""What the listwise objectives share: lists of scores, checked, with or without each sentence's own score."""

from __future__ import annotations

import torch
from torch import Tensor

from nearer.errors import InputError
from nearer.objectives.similarity import at_least_float32


def score_lists(name: str, scores: Tensor, *, keep_diagonal: bool = True) -> Tensor:
    """Scores (sentences, list) in float32 at least; without the diagonal (sentences, list − 1).

    The diagonal is the score of a sentence with itself, its positive. Values are looked at on the CPU only: on a GPU
    a look would make the CPU wait, and the loop finds a loss that is not a number by itself.
    """
    if scores.dim() != 2 or scores.shape[1] < 2:
        raise InputError(f"{name}: a ranking needs lists of 2 scores at least, one a row; {tuple(scores.shape)} given.")
    scores = at_least_float32(scores)
    if scores.device.type == "cpu" and not bool(torch.isfinite(scores.detach()).all()):
        raise InputError(f"{name}: holds scores that are not finite numbers.")
    if keep_diagonal:
        return scores
    rows, columns = scores.shape
    if rows != columns:
        raise InputError(f"{name}: only square scores have a diagonal to leave out; {tuple(scores.shape)} given.")
    # all entries in one row, the first cut off: then each row of (n − 1, n + 1) ends with one of the diagonal
    return scores.flatten()[1:].view(rows - 1, rows + 1)[:, :-1].reshape(rows, rows - 1)


def check_alike(student: Tensor, teacher: Tensor, *, name: str = "teacher_scores") -> None:
    if student.shape != teacher.shape:
        shapes = f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        raise InputError(f"{name}: must have the shape of student_scores; {shapes} given.")
