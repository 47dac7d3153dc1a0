"""The listwise objectives of RankCSE against loops in float64: values and gradients, ties, extremes, bad input."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.errors import InputError
from nearer.objectives import list_mle, list_net, ranking_consistency

TEMPERATURES = [0.0125, 0.05, 1.0]


def cosines(rows: int, columns: int, seed: int) -> Tensor:
    return 2 * torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1


def softmax(values: list[float]) -> list[float]:
    top = max(values)
    weights = [math.exp(value - top) for value in values]
    return [weight / sum(weights) for weight in weights]


def rows_of(scores: Tensor, keep_diagonal: bool) -> list[list[float]]:
    rows = scores.tolist()
    return rows if keep_diagonal else [row[:i] + row[i + 1 :] for i, row in enumerate(rows)]


def list_net_by_hand(student: Tensor, teacher: Tensor, tau2: float, tau3: float, keep_diagonal: bool) -> float:
    losses = []
    for own, other in zip(rows_of(student, keep_diagonal), rows_of(teacher, keep_diagonal), strict=True):
        top = max(own) / tau2
        rest = top + math.log(sum(math.exp(s / tau2 - top) for s in own))
        wanted = softmax([t / tau3 for t in other])
        losses.append(sum(p * (rest - s / tau2) for p, s in zip(wanted, own, strict=True)))
    return sum(losses) / len(losses)


def list_mle_by_hand(student: Tensor, teacher: Tensor, tau2: float, keep_diagonal: bool) -> float:
    losses = []
    for own, other in zip(rows_of(student, keep_diagonal), rows_of(teacher, keep_diagonal), strict=True):
        order = sorted(range(len(own)), key=lambda place: -other[place])  # stable: equal ones keep their order
        loss = 0.0
        for k, place in enumerate(order):
            rest = [own[other_place] / tau2 for other_place in order[k:]]
            top = max(rest)
            loss += top + math.log(sum(math.exp(value - top) for value in rest)) - own[place] / tau2
        losses.append(loss)
    return sum(losses) / len(losses)


def consistency_by_hand(scores: Tensor, tau1: float) -> float:
    losses = []
    for i in range(len(scores)):
        p = softmax([value / tau1 for value in scores[i].tolist()])
        q = softmax([value / tau1 for value in scores[:, i].tolist()])
        losses.append(
            sum(a * math.log(2 * a / (a + b)) for a, b in zip(p, q, strict=True) if a > 0)
            + sum(b * math.log(2 * b / (a + b)) for a, b in zip(p, q, strict=True) if b > 0)
        )
    return sum(losses) / len(losses)


@pytest.mark.parametrize("size", [2, 3, 16])
@pytest.mark.parametrize("keep_diagonal", [True, False])
@pytest.mark.parametrize("tau2", TEMPERATURES)
@pytest.mark.parametrize("tau3", TEMPERATURES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_list_net(
    size: int, keep_diagonal: bool, tau2: float, tau3: float, dtype: torch.dtype, tolerance: float
) -> None:
    student, teacher = cosines(size, size, 1), cosines(size, size, 2)
    found = list_net(
        student.to(dtype),
        teacher.to(dtype),
        student_temperature=tau2,
        teacher_temperature=tau3,
        keep_diagonal=keep_diagonal,
    )
    assert float(found) == pytest.approx(list_net_by_hand(student, teacher, tau2, tau3, keep_diagonal), rel=tolerance)


@pytest.mark.parametrize("size", [2, 3, 16])
@pytest.mark.parametrize("keep_diagonal", [True, False])
@pytest.mark.parametrize("tau2", TEMPERATURES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_list_mle(size: int, keep_diagonal: bool, tau2: float, dtype: torch.dtype, tolerance: float) -> None:
    student, teacher = cosines(size, size, 3), cosines(size, size, 4).mul(4).round().div(4)  # with ties
    found = list_mle(student.to(dtype), teacher.to(dtype), student_temperature=tau2, keep_diagonal=keep_diagonal)
    wanted = list_mle_by_hand(student, teacher, tau2, keep_diagonal)
    assert float(found) == pytest.approx(wanted, rel=tolerance, abs=1e-6)


def test_list_mle_is_a_likelihood_over_all_orders() -> None:
    """The probabilities of all permutations of four sum to one."""
    student = cosines(1, 4, 5)
    total = 0.0
    for order in itertools.permutations(range(4)):
        teacher = torch.empty(1, 4, dtype=torch.float64)
        teacher[0, list(order)] = torch.tensor([4.0, 3.0, 2.0, 1.0], dtype=torch.float64)
        total += math.exp(-float(list_mle(student, teacher, student_temperature=0.3, keep_diagonal=True)))
    assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("tau2", [0.0125, 0.05])
def test_list_mle_s_gradient_is_right_for_the_last_places_too(tau2: float) -> None:
    """In float32, against float64: where log(cumsum(exp) + eps) fails."""
    student, teacher = cosines(8, 24, 6), cosines(8, 24, 7)
    exact = student.clone().requires_grad_()
    list_mle(exact, teacher, student_temperature=tau2, keep_diagonal=True).backward()
    single = student.float().requires_grad_()
    list_mle(single, teacher.float(), student_temperature=tau2, keep_diagonal=True).backward()
    torch.testing.assert_close(single.grad.double(), exact.grad, rtol=2e-3, atol=2e-3)
    assert float(exact.grad.abs().max()) > 1


def test_the_tie_breaker_orders_equal_scores_and_no_others() -> None:
    student = cosines(1, 3, 8)
    teacher = torch.tensor([[0.5, 0.9, 0.5]], dtype=torch.float64)
    strict = {
        name: float(list_mle(student, torch.tensor([order], dtype=torch.float64), keep_diagonal=True))
        for name, order in {"first": [0.6, 0.9, 0.5], "last": [0.5, 0.9, 0.6]}.items()
    }
    for breaker, name in (([9.0, 0.0, 1.0], "first"), ([1.0, 0.0, 9.0], "last")):
        drawn = torch.tensor([breaker], dtype=torch.float64)
        found = list_mle(student, teacher, tie_breaker=drawn, keep_diagonal=True)
        assert float(found) == pytest.approx(strict[name], abs=1e-12)
    assert strict["first"] != pytest.approx(strict["last"])


@pytest.mark.parametrize("size", [2, 3, 16])
@pytest.mark.parametrize("tau1", TEMPERATURES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_ranking_consistency(size: int, tau1: float, dtype: torch.dtype, tolerance: float) -> None:
    scores = cosines(size, size, 9)
    found = ranking_consistency(scores.to(dtype), temperature=tau1)
    assert float(found) == pytest.approx(consistency_by_hand(scores, tau1), rel=1e-3, abs=tolerance)


@given(st.integers(2, 9), st.integers(0, 10_000), st.sampled_from([0.01, 0.05, 1.0]))
@settings(max_examples=60, deadline=None)
def test_consistency_is_bounded_symmetric_and_zero_for_symmetric_scores(size: int, seed: int, tau1: float) -> None:
    scores = cosines(size, size, seed)
    found = float(ranking_consistency(scores, temperature=tau1))
    assert -1e-12 <= found <= 2 * math.log(2) + 1e-12
    assert found == pytest.approx(float(ranking_consistency(scores.T, temperature=tau1)), abs=1e-12)
    assert float(ranking_consistency(scores + scores.T, temperature=tau1)) == pytest.approx(0, abs=1e-12)


@given(st.integers(3, 9), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_what_the_diagonal_holds_does_not_matter(size: int, seed: int) -> None:
    student, teacher = cosines(size, size, seed), cosines(size, size, seed + 1)
    changed = student.clone()
    changed.fill_diagonal_(0.123)
    for objective in (list_net, list_mle):
        assert float(objective(student, teacher)) == pytest.approx(float(objective(changed, teacher)), rel=1e-12)


@given(st.integers(2, 9), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_the_teacher_s_own_scores_are_the_best_answer(size: int, seed: int) -> None:
    """Of all students, ListNet likes the teacher best (at equal temperatures); no gradient goes to the teacher."""
    teacher = cosines(size, size, seed).requires_grad_()
    student = teacher.detach().clone().requires_grad_()
    loss = list_net(student, teacher, student_temperature=0.1, teacher_temperature=0.1, keep_diagonal=True)
    loss.backward()
    assert float(student.grad.abs().max()) < 1e-9
    assert teacher.grad is None


@pytest.mark.parametrize("objective", [list_net, list_mle])
def test_bad_input_is_named(objective: object) -> None:
    good = cosines(3, 3, 1)
    bad = good.clone()
    bad[1, 2] = math.nan
    call = objective
    assert callable(call)
    with pytest.raises(InputError, match=r"^student_scores: holds scores that are not finite"):
        call(bad, good)
    bad[1, 2] = math.inf
    with pytest.raises(InputError, match=r"^teacher_scores: holds scores that are not finite"):
        call(good, bad)
    with pytest.raises(InputError, match=r"^teacher_scores: must have the shape"):
        call(good, good[:2])
    with pytest.raises(InputError, match=r"lists of 2 scores at least"):
        call(good[:1, :1], good[:1, :1])  # a batch of one
    with pytest.raises(InputError, match=r"only square scores have a diagonal"):
        call(good[:2], good[:2])


def test_consistency_s_bad_input_is_named() -> None:
    with pytest.raises(InputError, match=r"^scores: .*lists of 2"):
        ranking_consistency(torch.ones(1, 1))
    with pytest.raises(InputError, match=r"^scores: holds"):
        ranking_consistency(torch.full((2, 2), math.nan))


@pytest.mark.parametrize("size", [3, 5])
def test_the_order_alone_is_two_loops(size: int) -> None:
    from nearer.objectives import list_order

    scores = torch.randn(2, size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows = []
    for matrix in scores.tolist():
        for j in range(size - 1):
            terms = [math.exp(matrix[j][k] / 0.5) for k in range(j + 1, size)]
            rows.append(-sum(math.log(term / sum(terms[n:])) for n, term in enumerate(terms)))
    assert list_order(scores, student_temperature=0.5).item() == pytest.approx(sum(rows) / len(rows), abs=1e-12)
    with pytest.raises(InputError, match="lists of 3 at least"):
        list_order(scores[..., :2, :2])
