"""Teachers' vectors turned into a student's space: a student can then learn where texts lie, not their order alone.

A teacher's space has other dimensions, and more of them. Cosines are all that matters of it, and turning changes none:
its main directions on these texts, as many as the student has, are turned to where the untrained student has its own
vectors of the same texts. What is left to learn is only what the teacher knows better.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

SAMPLE = 16_384  # texts that the turn is found with


def fit_alignment(known: NDArray[np.floating], own: NDArray[np.floating]) -> NDArray[np.float32]:
    """The matrix (theirs, ours) that turns a teacher's vectors into a student's space.

    Args:
        known: (texts, theirs) The teacher's vectors.
        own: (texts, ours) The untrained student's vectors of the same texts.

    Orthogonal Procrustes after the main directions (not centred, so that products stay as they are as far as possible).
    With as many dimensions, or more on our side, all products stay.

    Examples:
        >>> known = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> turned = known @ np.array([[0.0, 1.0], [-1.0, 0.0]])
        >>> np.allclose(known @ fit_alignment(known, turned), turned)
        True
    """
    theirs, ours = known.astype(np.float64), own.astype(np.float64)
    main = np.eye(theirs.shape[1])
    if theirs.shape[1] > ours.shape[1]:
        _, directions = np.linalg.eigh(theirs.T @ theirs)  # by rising weight
        main = directions[:, ::-1][:, : ours.shape[1]]
    left, _, right = np.linalg.svd((theirs @ main).T @ ours, full_matrices=False)
    fitted: NDArray[np.float32] = (main @ left @ right).astype(np.float32)
    return fitted


def sample_rows(count: int) -> NDArray[np.int64]:
    """Which of so many texts the turn is found with: all, or some from everywhere."""
    return np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64))


class Alignment(nn.Module):
    """matrix: (theirs, ours). Kept with the run: after an interruption the untrained student is not at hand."""

    matrix: Tensor

    def __init__(self, matrix: NDArray[np.float32]) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.from_numpy(matrix))

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors (texts, theirs) as directions (texts, ours) in the student's space."""
        return normalize(vectors.float() @ self.matrix, dim=-1)
