"""From embeddings and labels to the student's and the teacher's lists of scores, with every fault of labels named."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearer.errors import InputError
from nearer.objectives.similarity import at_least_float32, similarities


def batch_scores(embeddings: Sequence[Tensor]) -> Tensor:
    """The student's cosines of all first against all second views: (batch, batch)."""
    first, second = embeddings
    if len(first) < 2:
        raise InputError(
            "batch: 1 sentence has no others to be ranked against; the trainer's dataloader_drop_last=True leaves out "
            "the rest of an epoch that is smaller than a batch."
        )
    return similarities(first, second)


def list_scores(embeddings: Sequence[Tensor]) -> Tensor:
    """The student's cosines of each query with its own candidates: (batch, candidates)."""
    query, *candidates = map(at_least_float32, embeddings)
    return torch.cosine_similarity(query[:, None], torch.stack(candidates, dim=1), dim=-1)


def teacher_scores(labels: Tensor | None, student: Tensor) -> Tensor:
    """The teacher's cosines (batch, batch) from labels that are its embeddings, in float32.

    Labels (batch, dimension) serve both views. Labels (batch, 2, dimension) are of anchors and of positives.
    """
    given = _checked(
        labels, student, "the teacher's embeddings of the sentences; teacher_labels(dataset, teacher) adds them"
    )
    if given.dim() == 3 and given.shape[1] == 2:
        return similarities(given[:, 0], given[:, 1])
    if given.dim() != 2:
        raise InputError(
            f"labels: the teacher's embeddings must be ({len(student)}, dimension), or ({len(student)}, 2, dimension) "
            f"for pairs; {tuple(given.shape)} found. (Scores of listed candidates need labels='scores'.)"
        )
    return similarities(given, given)


def given_scores(labels: Tensor | None, student: Tensor) -> Tensor:
    """The teacher's scores (batch, candidates) from labels that are scores."""
    given = _checked(labels, student, "the teacher's scores of each query's candidates")
    if given.shape != student.shape:
        raise InputError(
            f"labels: the teacher's scores must be {tuple(student.shape)}, one for each candidate column; "
            f"{tuple(given.shape)} found."
        )
    return given


def _checked(labels: Tensor | None, student: Tensor, meaning: str) -> Tensor:
    if labels is None:
        raise InputError(f"labels: none found; the data set needs a column 'label' with {meaning}.")
    given = labels.detach().to(student.device, torch.float32)
    if given.dim() == 0 or len(given) != len(student):
        raise InputError(f"labels: must have {len(student)} rows, one a sentence; {tuple(given.shape)} found.")
    # on a GPU the look makes the CPU wait, as sentence-transformers' trainer does at every step anyway
    if not bool(torch.isfinite(given).all()):
        raise InputError("labels: hold values that are not finite numbers; they should be " + meaning + ".")
    return given
