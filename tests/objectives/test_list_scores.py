"""The objectives of scored lists against loops in float64: values, gradients, what may change nothing, bad input."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.errors import InputError
from nearer.objectives import best_of_list, list_mle, list_net, margin_mse

SIZES = st.tuples(st.integers(1, 5), st.integers(2, 7), st.integers(0, 10_000))


def drawn(rows: int, columns: int, seed: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def margin_by_hand(student: Tensor, judge: Tensor) -> float:
    means = []
    for own, wanted in zip(student.tolist(), judge.tolist(), strict=True):
        pairs = list(itertools.combinations(range(len(own)), 2))
        means.append(sum(((own[j] - own[k]) - (wanted[j] - wanted[k])) ** 2 for j, k in pairs) / len(pairs))
    return sum(means) / len(means)


def best_by_hand(scores: Tensor, best: Tensor, excluded: Tensor, temperature: float) -> float:
    losses = []
    for own, right, out in zip(scores.tolist(), best.tolist(), excluded.tolist(), strict=True):
        kept = [s / temperature for j, s in enumerate(own) if j == right or not out[j]]
        top = max(kept)
        losses.append(top + math.log(sum(math.exp(s - top) for s in kept)) - own[right] / temperature)
    return sum(losses) / len(losses)


@settings(max_examples=40, deadline=None)
@given(SIZES)
def test_margin_mse_is_the_mean_over_all_pairs(size: tuple[int, int, int]) -> None:
    rows, columns, seed = size
    student, judge = drawn(rows, columns, seed), drawn(rows, columns, seed + 1)
    assert margin_mse(student, judge).item() == pytest.approx(margin_by_hand(student, judge), rel=1e-9)


def test_of_two_passages_it_is_gpls() -> None:
    """GPL: ((q·p − q·n) − (CE(q, p) − CE(q, n)))², the mean over the batch."""
    student, judge = drawn(6, 2, 1), drawn(6, 2, 2)
    wanted = ((student[:, 0] - student[:, 1]) - (judge[:, 0] - judge[:, 1])).square().mean()
    torch.testing.assert_close(margin_mse(student, judge), wanted)


@settings(max_examples=30, deadline=None)
@given(SIZES, st.floats(-50, 50))
def test_a_number_added_to_a_lists_scores_changes_nothing(size: tuple[int, int, int], shift: float) -> None:
    rows, columns, seed = size
    student, judge = drawn(rows, columns, seed), drawn(rows, columns, seed + 1)
    added = shift * drawn(rows, 1, seed + 2)
    for loss in (margin_mse, _list_net, _list_mle):
        torch.testing.assert_close(loss(student, judge + added), loss(student, judge), rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(loss(student + added, judge), loss(student, judge), rtol=1e-7, atol=1e-7)


@settings(max_examples=30, deadline=None)
@given(SIZES)
def test_the_order_in_which_a_list_is_given_changes_nothing(size: tuple[int, int, int]) -> None:
    rows, columns, seed = size
    student, judge = drawn(rows, columns, seed), drawn(rows, columns, seed + 1)
    order = torch.randperm(columns, generator=torch.Generator().manual_seed(seed))
    for loss in (margin_mse, _list_net, _list_mle):
        torch.testing.assert_close(loss(student[:, order], judge[:, order]), loss(student, judge))


@settings(max_examples=40, deadline=None)
@given(SIZES, st.sampled_from([0.05, 1.0]))
def test_best_of_list_leaves_out_what_is_excluded_and_never_the_best(
    size: tuple[int, int, int], temperature: float
) -> None:
    rows, columns, seed = size
    random = torch.Generator().manual_seed(seed)
    scores, best = drawn(rows, columns, seed), torch.randint(columns, (rows,), generator=random)
    excluded = torch.rand(rows, columns, generator=random) < 0.5
    found = best_of_list(scores, best, excluded, temperature=temperature)
    assert found.item() == pytest.approx(best_by_hand(scores, best, excluded, temperature), rel=1e-9, abs=1e-12)


def test_with_everything_excluded_there_is_nothing_to_learn() -> None:
    scores = drawn(3, 4, 0).requires_grad_()
    loss = best_of_list(scores, torch.tensor([0, 3, 1]), torch.ones(3, 4, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert bool((scores.grad == 0).all())


def test_gradients() -> None:
    student, judge = drawn(3, 4, 5).requires_grad_(), drawn(3, 4, 6)
    best, excluded = torch.tensor([0, 2, 3]), drawn(3, 4, 7) > 0
    assert torch.autograd.gradcheck(lambda scores: margin_mse(scores, judge), (student,))
    assert torch.autograd.gradcheck(lambda scores: best_of_list(scores, best, excluded, temperature=0.5), (student,))
    judge.requires_grad_()
    margin_mse(student, judge).backward()
    assert judge.grad is None


@pytest.mark.parametrize(
    ("student", "judge", "told"),
    [
        (torch.ones(2, 3), torch.ones(2, 4), "judge_scores: must have the shape"),
        (torch.ones(2, 1), torch.ones(2, 1), "lists of 2 scores at least"),
        (torch.full((2, 3), math.nan), torch.ones(2, 3), "student_scores: holds scores that are not finite"),
        (torch.ones(2, 3), torch.full((2, 3), math.inf), "judge_scores: holds scores that are not finite"),
    ],
)
def test_bad_scores_are_named(student: Tensor, judge: Tensor, told: str) -> None:
    with pytest.raises(InputError, match=told):
        margin_mse(student, judge)


def test_what_does_not_fit_the_scores_is_named() -> None:
    with pytest.raises(InputError, match="excluded, best: must fit the scores"):
        best_of_list(torch.ones(2, 3), torch.zeros(3, dtype=torch.long), torch.zeros(2, 3, dtype=torch.bool))


def _list_net(student: Tensor, judge: Tensor) -> Tensor:
    return list_net(student, judge, student_temperature=0.5, teacher_temperature=0.5, keep_diagonal=True)


def _list_mle(student: Tensor, judge: Tensor) -> Tensor:
    return list_mle(student, judge, student_temperature=0.5, keep_diagonal=True)
