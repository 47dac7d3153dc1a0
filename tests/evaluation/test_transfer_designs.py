"""SentEval's three designs: against the plain version of them, and where strengths are chosen and rows kept apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import one_by_one_regression as plain
import pytest
import torch
from torch import Tensor

from nearer.evaluation.stacked_regression import Examples, Fits, Split, Training, fit_stacked
from nearer.evaluation.transfer_designs import (
    DESIGNS,
    SETTINGS,
    STRENGTHS,
    Outcome,
    Parts,
    Setting,
    folds,
    nested_folds,
    split,
)

SMALL = Setting(3, Training("adam", batch_size=16, tenacity=2, epoch_size=2))
SMALL_PLAIN = plain.Setting(3, "adam", 16, 2, 2)


def parts(train: int = 90, dev: int = 0, test: int = 0, *, classes: int = 2, nested: bool = False) -> Parts:
    rows = train + dev + test
    random = np.random.RandomState(5)
    labels = random.randint(0, classes, rows)
    features = random.normal(size=(classes, 5))[labels] + 2 * random.normal(size=(rows, 5))
    examples = Examples(torch.from_numpy(features.astype(np.float32)), torch.from_numpy(labels), classes)
    places = np.split(np.arange(rows), [train, train + dev])
    return Parts(examples, places[0], places[1], places[0] if nested else places[2])


def arrays(given: Parts, which: str) -> tuple[np.ndarray, np.ndarray]:
    rows = getattr(given, which)
    return given.examples.features.numpy()[rows], given.examples.labels.numpy()[rows]


def assert_same(ours: Outcome, theirs: plain.Outcome) -> None:
    assert ours.strengths == pytest.approx(theirs.strengths)
    assert ours.dev_accuracy == theirs.dev_accuracy
    assert ours.accuracy == theirs.accuracy


class TestAgainstOneAfterAnother:
    def test_nested_folds(self) -> None:
        given = parts(70, nested=True)
        ours, theirs = nested_folds(given, SMALL, fit_stacked), plain.nested_folds(*arrays(given, "train"), SMALL_PLAIN)
        assert_same(ours, theirs)
        assert ours.fold_accuracies == theirs.accuracies
        assert ours.fits == 3 * 3 * 4 + 3

    @pytest.mark.parametrize("classes", [2, 3])
    def test_folds(self, classes: int) -> None:
        given = parts(100, test=40, classes=classes)
        ours = folds(given, SMALL, fit_stacked)
        theirs = plain.folds_then_test(*arrays(given, "train"), *arrays(given, "test"), SMALL_PLAIN)
        assert_same(ours, theirs)
        assert ours.fits == 3 * 4 + 1

    def test_split(self) -> None:
        given = parts(100, dev=40, test=40)
        ours = split(given, SMALL, fit_stacked)
        named = {name: arrays(given, name) for name in ("train", "dev", "test")}
        theirs = plain.three_parts(
            {name: x for name, (x, _) in named.items()}, {name: y for name, (_, y) in named.items()}, SMALL_PLAIN
        )
        assert_same(ours, theirs)
        assert ours.fits == 4


def test_the_settings_are_the_reference_s() -> None:
    assert SETTINGS.keys() == plain.SETTINGS.keys()
    for name, ours in SETTINGS.items():
        training = ours.training
        theirs = plain.Setting(
            ours.folds,
            training.optimiser,
            training.batch_size,
            training.tenacity,
            training.epoch_size,
            training.max_epochs,
        )
        assert theirs == plain.SETTINGS[name]
        assert training.seed == plain.SEED
    assert list(STRENGTHS) == plain.STRENGTHS


class Recorded:
    """A fit that gives every strength, or each split's, the accuracy it is told to, and remembers what it was asked."""

    def __init__(self, *accuracies: float | np.ndarray) -> None:
        self.accuracies = accuracies
        self.calls: list[tuple[list[Split], Tensor]] = []

    def __call__(self, examples: Examples, splits: Sequence[Split], strengths: Tensor, training: Training) -> Fits:
        self.calls.append((list(splits), strengths))
        shape = (*strengths.shape, examples.classes)
        dev = np.broadcast_to(self.accuracies if strengths.shape[1] > 1 else 0.0, strengths.shape)
        epochs = np.zeros(strengths.shape, dtype=np.int64)
        return Fits(dev, epochs, torch.zeros(*shape, examples.features.shape[1]), torch.zeros(shape))


class TestChoice:
    @pytest.mark.parametrize("design", list(DESIGNS))
    def test_the_best_strength_is_the_smallest_of_those_equal_in_two_decimals(self, design: str) -> None:
        given = parts(90, dev=10, test=10)
        fit = Recorded(0.5, 0.70001, 0.70004, 0.6)
        outcome = DESIGNS[design](given, SMALL, fit)
        assert set(outcome.strengths) == {STRENGTHS[1]}
        assert outcome.dev_accuracy == 70.0

    def test_each_fold_is_tested_with_the_strength_chosen_for_it(self) -> None:
        best = np.repeat([2, 0, 3], 3)  # of the folds within each fold
        fit = Recorded(*np.eye(4)[best])
        outcome = nested_folds(parts(nested=True), SMALL, fit)
        assert outcome.strengths == [STRENGTHS[2], STRENGTHS[0], STRENGTHS[3]]
        assert fit.calls[1][1][:, 0].tolist() == outcome.strengths

    @pytest.mark.parametrize("design", list(DESIGNS))
    def test_without_test_rows_there_is_only_the_dev_accuracy(self, design: str) -> None:
        whole = DESIGNS[design](parts(70, dev=20, test=20), SMALL, fit_stacked)
        given = parts(70, dev=20, test=20)
        fit_count = Recorded(0.1, 0.2, 0.3, 0.4)
        outcome = DESIGNS[design](Parts(given.examples, given.train, given.dev, np.arange(0)), SMALL, fit_stacked)
        DESIGNS[design](Parts(given.examples, given.train, given.dev, np.arange(0)), SMALL, fit_count)
        assert outcome.accuracy is None
        assert (outcome.dev_accuracy, outcome.strengths) == (whole.dev_accuracy, whole.strengths)
        assert len(fit_count.calls) == 1


class TestRows:
    def test_nested_folds_never_see_the_rows_they_are_tested_on(self) -> None:
        fit = Recorded(0.1, 0.2, 0.3, 0.4)
        nested_folds(parts(nested=True), SMALL, fit)
        (inner, _), (outer, _) = fit.calls
        assert len(inner) == 9
        tested = [set(range(90)) - {*one.train.tolist(), *one.dev.tolist()} for one in outer]
        assert set.union(*tested) == set(range(90))
        assert sum(map(len, tested)) == 90
        for fold, held in enumerate(tested):
            for one in inner[3 * fold : 3 * fold + 3]:
                assert not held & {*one.train.tolist(), *one.dev.tolist()}
                assert {*one.train.tolist(), *one.dev.tolist()} | held == set(range(90))

    @pytest.mark.parametrize("design", ["folds", "split"])
    def test_test_rows_are_never_trained_on(self, design: str) -> None:
        given, fit = parts(70, dev=10 if design == "split" else 0, test=20), Recorded(0.1, 0.2, 0.3, 0.4)
        DESIGNS[design](given, SMALL, fit)
        seen = {row for splits, _ in fit.calls for one in splits for row in (*one.train.tolist(), *one.dev.tolist())}
        assert not seen & set(given.test.tolist())
        assert seen == set(given.train.tolist()) | set(given.dev.tolist())

    def test_a_twentieth_stops_the_refit(self) -> None:
        fit = Recorded(0.1, 0.2, 0.3, 0.4)
        folds(parts(100, test=20), SMALL, fit)
        [refit], _ = fit.calls[1]
        assert (len(refit.train), len(refit.dev), refit.drawn) == (95, 5, 100)
