"""Stacked regressions against the same ones fitted one after another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from one_by_one_regression import Regression, Setting

from nearer.evaluation.stacked_regression import (
    Examples,
    Fits,
    Split,
    Training,
    _Stack,
    first_weights,
    fit_stacked,
    held_out,
)

STRENGTHS = [1e-5, 1e-2, 0.3]
ADAM = Training("adam", batch_size=16, tenacity=2, epoch_size=2)
RMSPROP = Training("rmsprop", batch_size=16, tenacity=2, epoch_size=2)


def examples(rows: int = 160, dimension: int = 6, classes: int = 2, *, noise: float = 1.0, seed: int = 0) -> Examples:
    """Classes that overlap, so that accuracies go up and down and each problem ends in its own time."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, classes, rows)
    features = random.normal(size=(classes, dimension))[labels] + noise * random.normal(size=(rows, dimension))
    return Examples(torch.from_numpy(features), torch.from_numpy(labels), classes)


def splits(rows: int = 160) -> list[Split]:
    """Training rows that need 7 and 8 batches of 16, the last ones full, short, and of one row."""
    random = np.random.RandomState(1)
    sizes = [112, 111, 113, 112, 100, 128]
    orders = [random.permutation(rows) for _ in sizes]
    drawn = [held_out(np.sort(random.permutation(rows)[:120]), 0.1, 1111)]
    return [Split(np.sort(order[:n]), np.sort(order[n:])) for order, n in zip(orders, sizes, strict=True)] + drawn


def strengths(splits: Sequence[Split], values: Sequence[float] = STRENGTHS) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).repeat(len(splits), 1)


def one_after_another(data: Examples, split: Split, strength: float, training: Training) -> tuple[Regression, float]:
    setting = Setting(0, training.optimiser, training.batch_size, training.tenacity, training.epoch_size)
    setting.max_epochs = training.max_epochs
    regression = Regression(data.features.shape[1], data.classes, strength, setting)
    if split.drawn:
        regression.random.permutation(split.drawn)
    x, y = data.features.numpy(), data.labels.numpy()
    accuracy = regression.fit(x[split.train], y[split.train], x[split.dev], y[split.dev])
    return regression, accuracy


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("training", [ADAM, RMSPROP], ids=["adam", "rmsprop"])
def test_every_problem_is_the_one_it_would_be_alone(training: Training, classes: int) -> None:
    data, parts = examples(classes=classes), splits()
    fits = fit_stacked(data, parts, strengths(parts), training)
    assert len(set(fits.epochs.flatten())) > 2  # they do end at different times
    for row, split in enumerate(parts):
        for column, strength in enumerate(STRENGTHS):
            alone, accuracy = one_after_another(data, split, strength, training)
            assert fits.dev_accuracy[row, column] == pytest.approx(accuracy, abs=1e-12)
            assert fits.epochs[row, column] == alone.epochs
            torch.testing.assert_close(fits.weights[row, column], alone.layer.weight.data, atol=1e-9, rtol=1e-7)
            torch.testing.assert_close(fits.biases[row, column], alone.layer.bias.data, atol=1e-9, rtol=1e-7)


def test_float32_comes_to_the_same_accuracies() -> None:
    data, parts = examples(), splits()[:4]
    data = Examples(data.features.float(), data.labels, data.classes)
    fits = fit_stacked(data, parts, strengths(parts), ADAM)
    expected = [[one_after_another(data, split, value, ADAM)[1] for value in STRENGTHS] for split in parts]
    one_row = 1 / min(len(split.dev) for split in parts)
    np.testing.assert_allclose(fits.dev_accuracy, expected, atol=one_row)
    assert fits.dev_accuracy.mean() == pytest.approx(np.mean(expected), abs=0.005)


@settings(max_examples=10, deadline=None)
@given(sizes=st.lists(st.integers(33, 70), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_the_company_makes_no_difference(sizes: list[int], seed: int) -> None:
    data, random = examples(80, 3, seed=seed), np.random.RandomState(seed)
    orders = [random.permutation(80) for _ in sizes]
    parts = [Split(order[:size], order[size:]) for order, size in zip(orders, sizes, strict=True)]
    together = fit_stacked(data, parts, strengths(parts), ADAM)
    for row, split in enumerate(parts):
        alone = fit_stacked(data, [split], strengths([split]), ADAM)
        assert_alike(alone, together, row)


def assert_alike(alone: Fits, together: Fits, row: int) -> None:
    assert alone.epochs[0].tolist() == together.epochs[row].tolist()
    assert alone.dev_accuracy[0].tolist() == together.dev_accuracy[row].tolist()
    torch.testing.assert_close(alone.weights[0], together.weights[row])


def test_each_split_may_have_strengths_of_its_own() -> None:
    data, parts = examples(), splits()[:2]
    both = fit_stacked(data, parts, torch.tensor([[1e-5], [0.3]], dtype=torch.float64), ADAM)
    every = fit_stacked(data, parts, strengths(parts), ADAM)
    torch.testing.assert_close(both.weights[:, 0], torch.stack([every.weights[0, 0], every.weights[1, 2]]))


def test_an_epoch_has_every_training_row_of_a_split_once() -> None:
    parts = splits()[:4]  # 112, 111, 113 and 112 rows
    stack = _Stack(examples(), 6, [parts[0], parts[1], parts[3]], strengths(parts[:3]), ADAM)
    rows, targets = stack._epoch()
    rows = rows.view(7, 3, 16)
    for place, split in enumerate([parts[0], parts[1], parts[3]]):
        there = stack.shares[:, place, 0, 0] > 0
        assert sorted(rows[:, place][there].tolist()) == split.train.tolist()
        assert stack.shares[:, place].sum((1, 2, 3)).tolist() == pytest.approx([1] * 7)
        assert torch.equal(targets[:, place, 0].argmax(1), stack.labels[rows[:, place]])
    assert not torch.equal(stack._epoch()[0], rows.flatten(1))


def test_misses_are_counted_in_all_and_not_in_a_row() -> None:
    """The last look that a problem is given is its third miss, whenever the first two were."""
    data, parts = examples(noise=3.0), splits()[:2]
    fits = fit_stacked(data, parts, strengths(parts), ADAM)
    for row, split in enumerate(parts):
        for column, strength in enumerate(STRENGTHS):
            looks = [
                one_after_another(data, split, strength, Training("adam", 16, 99, 2, max_epochs=2 * look))[1]
                for look in range(int(fits.epochs[row, column]) // 2)
            ]
            misses = [later == sooner for sooner, later in itertools.pairwise(looks)]
            assert sum(misses) == 3
            assert misses[-1]


def test_training_ends_when_more_than_the_greatest_number_of_epochs_have_passed() -> None:
    parts = splits()[:1]
    training = Training("adam", batch_size=16, tenacity=99, epoch_size=4, max_epochs=8)
    assert fit_stacked(examples(), parts, strengths(parts), training).epochs.tolist() == [[12] * 3]


def test_the_first_weights_are_those_of_a_new_layer() -> None:
    torch.manual_seed(1111)
    layer = torch.nn.Linear(300, 6)
    weights, biases = first_weights(300, 6, 1111)
    torch.testing.assert_close(weights, layer.weight.data, atol=1e-8, rtol=0)
    torch.testing.assert_close(biases, layer.bias.data, atol=1e-8, rtol=0)


def test_the_caller_s_random_numbers_are_left_alone() -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    expected = torch.Generator().manual_seed(3), np.random.RandomState(3)
    parts = splits()
    fit_stacked(examples(), parts, strengths(parts), ADAM)
    assert torch.rand(()) == torch.rand((), generator=expected[0])
    assert np.random.random() == expected[1].random()


def test_holding_out_takes_the_first_rows_of_the_first_permutation() -> None:
    rows = np.arange(100, 150)
    split = held_out(rows, 0.05, 1111)
    order = np.random.RandomState(1111).permutation(50)
    assert split.dev.tolist() == (100 + order[:2]).tolist()
    assert split.train.tolist() == (100 + order[2:]).tolist()
    assert split.drawn == 50


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_comes_to_the_same() -> None:
    data, parts = examples(), splits()
    on_gpu = Examples(data.features.cuda(), data.labels.cuda(), data.classes)
    expected = fit_stacked(data, parts, strengths(parts), ADAM)
    fits = fit_stacked(on_gpu, parts, strengths(parts), ADAM)
    assert fits.dev_accuracy.tolist() == expected.dev_accuracy.tolist()
    torch.testing.assert_close(fits.weights.cpu(), expected.weights)
