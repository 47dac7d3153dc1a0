"""What SentEval's classifier is fitted to, how it is trained, and what comes out: a logistic regression or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.evaluation.folds import Rows


@dataclass(frozen=True)
class Training:
    """How one regression is trained.

    epoch_size: epochs from one look at the dev rows to the next. tenacity: so many looks may find no better accuracy,
    in a row or not; the next that does ends the training. max_epochs: once more have passed, no others follow.
    """

    optimiser: Literal["adam", "rmsprop"]
    batch_size: int
    tenacity: int
    epoch_size: int
    max_epochs: int = 200
    seed: int = 1111


@dataclass(frozen=True)
class Examples:
    """What is to be classified; the device of the features is the one on which regressions are fitted."""

    features: Tensor  # (rows, dimension), float32
    labels: Tensor  # (rows,), int64, from 0 to classes - 1
    classes: int


@dataclass(frozen=True)
class Split:
    """The rows that a regression learns from, and those by which it is stopped and judged.

    drawn: the size of the permutation that the fit took from its random numbers before its first epoch, 0 for none.
    """

    train: Rows
    dev: Rows
    drawn: int = 0


def held_out(rows: Rows, share: float, seed: int) -> Split:
    """A random share of the rows as dev rows, drawn as the first of the fit's random numbers."""
    order = np.random.RandomState(seed).permutation(len(rows))
    cut = int(share * len(rows))
    return Split(rows[order[cut:]], rows[order[:cut]], drawn=len(rows))


@dataclass(frozen=True)
class Fits:
    """The regressions with the best dev accuracy of each training: a row a split, a column a strength."""

    dev_accuracy: NDArray[np.float64]  # (splits, strengths)
    epochs: NDArray[np.int64]  # (splits, strengths): how long each was trained
    weights: Tensor  # (splits, strengths, classes, dimension)
    biases: Tensor  # (splits, strengths, classes)

    def predicted(self, features: Tensor, split: int, strength: int = 0) -> NDArray[np.int64]:
        """The classes of these rows (rows,)."""
        logits = torch.addmm(self.biases[split, strength], features, self.weights[split, strength].T)
        classes: NDArray[np.int64] = logits.argmax(1).cpu().numpy()
        return classes
