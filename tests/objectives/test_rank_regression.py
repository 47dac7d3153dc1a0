"""RankEncoder's regression on rank similarities against a loop in float64: thresholds, gradients, bad input."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.errors import InputError
from nearer.objectives import rank_regression


def drawn(size: int, seed: int) -> Tensor:
    """Between −1 and 1, on a coarse grid: some values are equal, and some are thresholds."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-20, 21, (size, size), generator=random).double() / 20


def by_hand(student: Tensor, wanted: Tensor, lower: float, upper: float) -> float:
    errors = [
        (w - s) ** 2
        for row, wanted_row in zip(student.tolist(), wanted.tolist(), strict=True)
        for s, w in zip(row, wanted_row, strict=True)
        if lower <= w <= upper
    ]
    return sum(errors) / len(errors) if errors else 0.0


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize(("lower", "upper"), [(0.5, 0.8), (-1.0, 1.0), (0.5, 0.9999), (0.25, 0.25), (0.96, 0.99)])
@given(size=st.integers(2, 9), seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_it_is_the_mean_over_pairs_inside(
    dtype: torch.dtype, tolerance: float, lower: float, upper: float, size: int, seed: int
) -> None:
    student, wanted = drawn(size, seed).to(dtype), drawn(size, seed + 1).to(dtype)
    found = rank_regression(student, wanted, lower=lower, upper=upper)
    rounded = torch.tensor([lower, upper], dtype=dtype).tolist()  # as the similarities are
    assert found.item() == pytest.approx(by_hand(student, wanted, *rounded), abs=tolerance)


def test_only_pairs_inside_pull_and_the_similarities_are_not_trained() -> None:
    student = drawn(6, 1).requires_grad_()
    wanted = drawn(6, 2).requires_grad_()
    rank_regression(student, wanted, lower=0.0, upper=0.5).backward()
    assert student.grad is not None
    assert wanted.grad is None
    inside = (wanted >= 0) & (wanted <= 0.5)
    expected = torch.where(inside, 2 * (student - wanted), 0.0) / inside.sum()
    torch.testing.assert_close(student.grad, expected.detach())


def test_scores_in_half_precision_are_compared_in_float32() -> None:
    student, wanted = drawn(4, 1), drawn(4, 2)
    assert rank_regression(student.bfloat16(), wanted.bfloat16(), lower=-1, upper=1).dtype == torch.float32


def test_bad_input_is_named() -> None:
    scores = drawn(3, 1)
    with pytest.raises(InputError, match="rank_similarities: must have the shape of student_scores"):
        rank_regression(scores, scores[:2])
    with pytest.raises(InputError, match="student_scores: a ranking needs lists of 2"):
        rank_regression(scores[:1, :1], scores[:1, :1])
    for value in (float("nan"), float("inf")):
        broken = scores.clone()
        broken[1, 2] = value
        with pytest.raises(InputError, match="student_scores: holds scores that are not finite"):
            rank_regression(broken, scores)
        with pytest.raises(InputError, match="rank_similarities: holds scores that are not finite"):
            rank_regression(scores, broken)
