"""Folds in which every class has its share, the same ones that scikit-learn's shuffled StratifiedKFold makes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Rows = NDArray[np.int64]


def stratified_folds(labels: Labels, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold in which each example is tested (examples,).

    The classes take their turns in the order of their first examples: with another order the same seed would
    deal out other folds.
    """
    values, first = np.unique(labels, return_index=True)
    values = values[np.argsort(first)]
    counts = [int((labels == value).sum()) for value in values]
    # the examples, sorted by class, are dealt out to the folds one by one
    dealt = np.repeat(np.arange(len(values)), counts)
    shuffler = np.random.RandomState(seed)
    fold_of = np.empty(len(labels), dtype=np.int64)
    for number, value in enumerate(values):
        shares = [int((dealt[fold::folds] == number).sum()) for fold in range(folds)]
        places = np.repeat(np.arange(folds), shares)
        shuffler.shuffle(places)
        fold_of[labels == value] = places
    return fold_of


def fold_rows(labels: Labels, folds: int, seed: int) -> list[tuple[Rows, Rows]]:
    """For each fold the rows outside of it and the rows in it, both in their order."""
    fold_of = stratified_folds(labels, folds, seed)
    return [(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(folds)]
