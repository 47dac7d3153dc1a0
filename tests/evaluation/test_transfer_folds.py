"""Stratified folds: scikit-learn's, to the row."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.evaluation.transfer_designs import fold_rows, stratified_folds

model_selection = pytest.importorskip("sklearn.model_selection")


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.sampled_from([0, 1, 2, 5]), min_size=10, max_size=80),
    folds=st.integers(2, 10),
    seed=st.integers(0, 2000),
)
def test_the_same_folds_as_scikit_learn(labels: list[int], folds: int, seed: int) -> None:
    gold = np.array(labels)
    if np.bincount(gold).max() < folds:
        return  # scikit-learn refuses
    theirs = model_selection.StratifiedKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class that is rarer than there are folds
        expected = list(theirs.split(gold, gold))
    for (train, test), (their_train, their_test) in zip(fold_rows(gold, folds, seed), expected, strict=True):
        assert train.tolist() == their_train.tolist()
        assert test.tolist() == their_test.tolist()


def test_every_class_has_its_share_in_every_fold() -> None:
    labels = np.repeat([1, 0, 2], [50, 30, 20])
    fold_of = stratified_folds(labels, 10, 1111)
    for value, share in ((1, 5), (0, 3), (2, 2)):
        assert np.bincount(fold_of[labels == value]).tolist() == [share] * 10


def test_the_caller_s_random_numbers_are_left_alone() -> None:
    np.random.seed(3)
    expected = np.random.RandomState(3).random()
    stratified_folds(np.arange(20) % 2, 5, 1111)
    assert np.random.random() == expected
