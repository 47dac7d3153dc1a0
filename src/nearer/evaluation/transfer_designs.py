"""How SentEval comes from labelled examples to an accuracy: which fits, which strength of theirs, which test rows.

| design | tasks | strength chosen by | tested on |
| --- | --- | --- | --- |
| nested folds | MR, CR, SUBJ, MPQA | folds within each training part | each fold in turn |
| folds | TREC, MRPC | folds of the training rows | the test rows |
| split | SST-2 | the dev rows | the test rows |

With folds, the regression that is tested is trained anew with the chosen strength, and stopped by a twentieth of its
rows held out. With a split it would be the chosen one over again, which is therefore taken as it is. Accuracies are
rounded to two decimals where SentEval does so: before a strength is chosen, the smallest of equals, and again before
the folds are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nearer.evaluation.stacked_regression import Examples, Fits, Rows, Split, Training, held_out

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)
HELD_OUT = 0.05

Fit = Callable[[Examples, Sequence[Split], Tensor, Training], Fits]


@dataclass(frozen=True)
class Setting:
    """SentEval's two: `test` is what papers report, `fast` what it recommends for trying out."""

    folds: int
    training: Training


SETTINGS = {
    "test": Setting(10, Training("adam", batch_size=64, tenacity=5, epoch_size=4)),
    "fast": Setting(5, Training("rmsprop", batch_size=128, tenacity=3, epoch_size=2)),
}


@dataclass(frozen=True)
class Parts:
    """Examples, and which of them are for what; without test rows there is no more than a dev accuracy.

    With nested folds all rows are for training, and for testing where `test` has any.
    """

    examples: Examples
    train: Rows
    dev: Rows
    test: Rows

    def labels(self, rows: Rows) -> NDArray[np.int64]:
        labels: NDArray[np.int64] = self.examples.labels.cpu().numpy()[rows]
        return labels

    def predicted(self, fits: Fits, rows: Rows, fit: int = 0, strength: int = 0) -> NDArray[np.int64]:
        features = self.examples.features
        return fits.predicted(features[torch.from_numpy(rows).to(features.device)], fit, strength)


@dataclass(frozen=True)
class Outcome:
    """Accuracies in percent. strengths: the chosen one, of each fold where they are nested; fits: how many there were;
    predicted: the classes of the test rows, unless folds were tested in turn.
    """

    dev_accuracy: float
    strengths: list[float]
    fits: int
    accuracy: float | None = None
    fold_accuracies: list[float] = field(default_factory=list)
    predicted: NDArray[np.int64] | None = None


def nested_folds(parts: Parts, setting: Setting, fit: Fit) -> Outcome:
    outer = [(parts.train[rows], parts.train[held]) for rows, held in _folds(parts, parts.train, setting)]
    splits = [Split(rows[train], rows[dev]) for rows, _ in outer for train, dev in _folds(parts, rows, setting)]
    fits = fit(parts.examples, splits, _all_strengths(len(splits)), setting.training)
    accuracies = _percent(fits.dev_accuracy.reshape(len(outer), setting.folds, -1).mean(1))  # (folds, strengths)
    chosen = [STRENGTHS[number] for number in accuracies.argmax(1)]
    outcome = Outcome(_mean(accuracies.max(1)), chosen, fits.dev_accuracy.size)
    if not len(parts.test):
        return outcome
    again = [held_out(rows, HELD_OUT, setting.training.seed) for rows, _ in outer]
    refits = fit(parts.examples, again, torch.tensor(chosen, dtype=torch.float64)[:, None], setting.training)
    tested = [
        float(_percent((parts.predicted(refits, held, fold) == parts.labels(held)).mean()))
        for fold, (_, held) in enumerate(outer)
    ]
    return replace(outcome, fits=outcome.fits + len(outer), accuracy=_mean(tested), fold_accuracies=tested)


def folds(parts: Parts, setting: Setting, fit: Fit) -> Outcome:
    rows = parts.train
    splits = [Split(rows[train], rows[dev]) for train, dev in _folds(parts, rows, setting)]
    fits = fit(parts.examples, splits, _all_strengths(len(splits)), setting.training)
    accuracies = _percent(fits.dev_accuracy.mean(0))  # (strengths,)
    strength = STRENGTHS[int(accuracies.argmax())]
    outcome = Outcome(float(accuracies.max()), [strength], fits.dev_accuracy.size)
    if not len(parts.test):
        return outcome
    again = [held_out(rows, HELD_OUT, setting.training.seed)]
    refit = fit(parts.examples, again, torch.tensor([[strength]], dtype=torch.float64), setting.training)
    return _tested(parts, replace(outcome, fits=outcome.fits + 1), refit)


def split(parts: Parts, setting: Setting, fit: Fit) -> Outcome:
    fits = fit(parts.examples, [Split(parts.train, parts.dev)], _all_strengths(1), setting.training)
    accuracies = _percent(fits.dev_accuracy[0])
    chosen = int(accuracies.argmax())
    outcome = Outcome(float(accuracies[chosen]), [STRENGTHS[chosen]], len(accuracies))
    return _tested(parts, outcome, fits, chosen) if len(parts.test) else outcome


DESIGNS: dict[str, Callable[[Parts, Setting, Fit], Outcome]] = {
    "nested folds": nested_folds,
    "folds": folds,
    "split": split,
}


def _folds(parts: Parts, rows: Rows, setting: Setting) -> list[tuple[Rows, Rows]]:
    """Indices among these rows: outside of each fold, and in it."""
    return fold_rows(parts.labels(rows), setting.folds, setting.training.seed)


def _all_strengths(splits: int) -> Tensor:
    return torch.tensor(STRENGTHS, dtype=torch.float64).repeat(splits, 1)


def _tested(parts: Parts, outcome: Outcome, fits: Fits, strength: int = 0) -> Outcome:
    predicted = parts.predicted(fits, parts.test, strength=strength)
    accuracy = float(_percent((predicted == parts.labels(parts.test)).mean()))
    return replace(outcome, accuracy=accuracy, predicted=predicted)


def _percent(shares: ArrayLike) -> NDArray[np.float64]:
    return np.round(100 * np.asarray(shares, dtype=np.float64), 2)


def _mean(accuracies: ArrayLike) -> float:
    return float(np.round(np.asarray(accuracies, dtype=np.float64).mean(), 2))


Labels = NDArray[np.int64]


def stratified_folds(labels: Labels, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold in which each example is tested (examples,): scikit-learn's shuffled StratifiedKFold makes the same.

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
        own = np.repeat(np.arange(folds), shares)
        shuffler.shuffle(own)
        fold_of[labels == value] = own
    return fold_of


def fold_rows(labels: Labels, folds: int, seed: int) -> list[tuple[Rows, Rows]]:
    """For each fold the rows outside of it and the rows in it, both in their order."""
    fold_of = stratified_folds(labels, folds, seed)
    return [(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(folds)]
