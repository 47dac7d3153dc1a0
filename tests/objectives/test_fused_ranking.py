"""Fused ranking against Eq. 6–8 and Algorithm 1 written out with loops, and what the target must do to an order."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from nearer.errors import InputError
from nearer.objectives import fuse, fused_ranking

seeds = st.integers(0, 10_000)
sizes = st.integers(2, 9)
strengths = st.sampled_from([0.1, 0.5, 0.7, 1.0, 3.0])


def cosines(size: int, seed: int, *lists: int, ties: bool = False) -> Tensor:
    """Of random sentences, float64; with ties some sentences are the same."""
    random = torch.Generator().manual_seed(seed)
    vectors = normalize(torch.randn(*lists, size, 5, generator=random, dtype=torch.float64), dim=-1)
    if ties and size > 3:
        vectors[..., 2, :] = vectors[..., 1, :]
    scores = vectors @ vectors.mT
    return ((scores + scores.mT) / 2).clamp(max=1.0).round(decimals=9)


def by_equations(scores: list[list[float]], strength: float) -> list[list[float]]:
    """Eq. 6 and 7, with the ranks of Eq. 5, for the sentences from j on; the other half is the mirror image."""
    size = len(scores)
    fused = [list(row) for row in scores]
    for j in range(size):
        tail = list(range(j, size))
        order = sorted(tail, key=lambda k: -scores[j][k])  # stable
        for k in tail:
            r, r_hat = k - j, order.index(k)
            m = math.log(strength * abs(scores[j][k] - scores[j][order[r]]) + 1)
            if r < r_hat:
                fused[j][k] = scores[j][k] + m
            elif r > r_hat:
                fused[j][k] = scores[j][k] - m
            fused[k][j] = fused[j][k]
    return fused


def as_released(scores: list[list[float]], strength: float) -> list[list[float]]:
    """The comparison of a place among the sorted with a column of the whole row."""
    size = len(scores)
    fused = [list(row) for row in scores]
    for i in range(size):
        row = scores[i][i:]
        order = sorted(range(len(row)), key=lambda place: -row[place])
        for j in range(i, size):
            wanted = row[order[j - i]]
            sign = -1 if order.index(j - i) < j else 1
            fused[i][j] += sign * math.log(strength * abs(scores[i][j] - wanted) + 1)
            fused[j][i] = fused[i][j]
    return fused


@settings(max_examples=150, deadline=None)
@given(sizes, seeds, strengths, st.booleans())
def test_the_target_is_that_of_the_equations(size: int, seed: int, strength: float, ties: bool) -> None:
    scores = cosines(size, seed, ties=ties)
    wanted = torch.tensor(by_equations(scores.tolist(), strength), dtype=torch.float64)
    torch.testing.assert_close(fuse(scores, rank_strength=strength), wanted, atol=1e-12, rtol=0)


@settings(max_examples=100, deadline=None)
@given(sizes, seeds, strengths, st.booleans())
def test_the_released_reading_is_that_of_its_loops(size: int, seed: int, strength: float, ties: bool) -> None:
    scores = cosines(size, seed, ties=ties)
    wanted = torch.tensor(as_released(scores.tolist(), strength), dtype=torch.float64)
    found = fuse(scores, rank_strength=strength, variant="released")
    torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)


def test_the_two_readings_differ_in_signs_alone() -> None:
    scores = cosines(12, 3)
    ours, theirs = (fuse(scores, rank_strength=0.5, variant=variant) - scores for variant in ("paper", "released"))
    torch.testing.assert_close(ours.abs(), theirs.abs())
    assert (ours.sign() != theirs.sign()).any()


@settings(max_examples=60, deadline=None)
@given(sizes, seeds, strengths)
def test_lists_are_fused_each_for_itself(size: int, seed: int, strength: float) -> None:
    scores = cosines(size, seed, 3)
    for variant in ("paper", "released"):
        each = torch.stack([fuse(one, rank_strength=strength, variant=variant) for one in scores])
        torch.testing.assert_close(fuse(scores, rank_strength=strength, variant=variant), each)


@settings(max_examples=60, deadline=None)
@given(sizes, seeds, strengths)
def test_the_target_is_symmetric_and_keeps_its_diagonal(size: int, seed: int, strength: float) -> None:
    scores = cosines(size, seed)
    fused = fuse(scores, rank_strength=strength)
    torch.testing.assert_close(fused, fused.mT)
    torch.testing.assert_close(fused.diagonal(), scores.diagonal(), atol=0, rtol=0)


@settings(max_examples=60, deadline=None)
@given(sizes, seeds, strengths)
def test_scores_in_the_lists_order_are_left_alone(size: int, seed: int, strength: float) -> None:
    """Falling away from the diagonal along each row; by steps of random width."""
    random = torch.Generator().manual_seed(seed)
    places = torch.rand(size, generator=random, dtype=torch.float64).cumsum(0)
    scores = 1 - (places[:, None] - places).abs() / size
    torch.testing.assert_close(fuse(scores, rank_strength=strength), scores, atol=0, rtol=0)


def test_without_strength_the_judge_alone_is_heard() -> None:
    scores = cosines(8, 1)
    torch.testing.assert_close(fuse(scores, rank_strength=0.0), scores, atol=0, rtol=0)


def test_one_pair_in_the_wrong_order_draws_together_and_changes_places_beyond_a_strength() -> None:
    scores = torch.tensor([[1.0, 0.5, 0.6], [0.5, 1.0, 0.2], [0.6, 0.2, 1.0]])
    weak, strong = fuse(scores, rank_strength=0.5), fuse(scores, rank_strength=0.9)
    step = math.log(1 + 0.5 * 0.1)
    assert weak[0].tolist() == pytest.approx([1.0, 0.5 + step, 0.6 - step])
    assert weak[0, 1] < weak[0, 2]
    assert strong[0, 1] > strong[0, 2]


def agreement(scores: Tensor) -> float:
    """Kendall's tau of each row's later scores with the list's order, over all rows."""
    size = len(scores)
    signs = [
        torch.sign(scores[j, near] - scores[j, far]).item()
        for j in range(size)
        for near in range(j + 1, size)
        for far in range(near + 1, size)
    ]
    return sum(signs) / len(signs)


@pytest.mark.parametrize(("strength", "gain"), [(0.2, 0.05), (0.5, 0.3), (0.7, 0.45), (1.0, 0.6)])
def test_the_target_stands_closer_to_the_lists_order(strength: float, gain: float) -> None:
    before = [agreement(cosines(9, seed)) for seed in range(12)]
    after = [agreement(fuse(cosines(9, seed), rank_strength=strength)) for seed in range(12)]
    assert all(new >= old for new, old in zip(after, before, strict=True))
    assert sum(after) / 12 > sum(before) / 12 + gain


def loss_by_hand(student: Tensor, target: Tensor, temperature: float, *, keep_diagonal: bool) -> float:
    """Eq. 8 as products of probabilities, for one list; the mean over its rows."""
    rows = []
    for j in range(len(student)):
        places = [k for k in range(len(student)) if keep_diagonal or k != j]
        order = sorted(places, key=lambda k: -target[j, k].item())
        chances = [math.exp(student[j, k].item() / temperature) for k in order]
        rows.append(-sum(math.log(chance / sum(chances[place:])) for place, chance in enumerate(chances)))
    return sum(rows) / len(rows)


@pytest.mark.parametrize("keep_diagonal", [True, False])
@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_the_loss_is_the_likelihood_of_the_targets_order(keep_diagonal: bool, variant: str, temperature: float) -> None:
    student, judge = cosines(6, 1, 4), cosines(6, 2, 4)
    options = {"rank_strength": 0.7, "variant": variant}
    found = fused_ranking(student, judge, student_temperature=temperature, keep_diagonal=keep_diagonal, **options)
    by_hand = [
        loss_by_hand(one, fuse(other, **options), temperature, keep_diagonal=keep_diagonal)
        for one, other in zip(student, judge, strict=True)
    ]
    assert found.item() == pytest.approx(sum(by_hand) / 4, rel=1e-9)


def test_several_lists_weigh_alike_and_a_single_one_needs_no_batch() -> None:
    student, judge = cosines(5, 1, 3), cosines(5, 2, 3)
    each = [fused_ranking(one, other).item() for one, other in zip(student, judge, strict=True)]
    assert fused_ranking(student, judge).item() == pytest.approx(sum(each) / 3)


def test_following_the_gradient_brings_the_targets_order() -> None:
    judge = cosines(7, 5)
    target = fuse(judge, rank_strength=0.7)
    vectors = torch.randn(7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([vectors], lr=0.05)
    for _ in range(300):
        units = normalize(vectors, dim=-1)
        loss = fused_ranking(units @ units.mT, judge, rank_strength=0.7)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    units = normalize(vectors.detach(), dim=-1)
    learnt = (units @ units.mT).argsort(dim=-1, descending=True)
    assert (learnt == target.argsort(dim=-1, descending=True)).double().mean() > 0.9


def test_half_precision_is_computed_in_float32() -> None:
    judge = cosines(6, 2).half()
    assert fuse(judge, rank_strength=0.5).dtype == torch.float32


@pytest.mark.parametrize("shape", [(3,), (3, 4), (1, 1), (2, 1, 1)], ids=str)
def test_matrices_that_are_none_of_lists_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"must be square, of lists of 2 at least; \("):
        fuse(torch.zeros(shape), rank_strength=0.5)


def test_scores_that_do_not_fit_together_or_are_no_numbers_are_refused() -> None:
    good = cosines(4, 1)
    with pytest.raises(InputError, match=r"teacher_scores: must have the shape of.*\(4, 4\) and \(3, 3\)"):
        fused_ranking(good, cosines(3, 1))
    spoilt = good.clone()
    spoilt[0, 1] = torch.nan
    with pytest.raises(InputError, match="student_scores: holds scores that are not finite"):
        fused_ranking(spoilt, good)
    with pytest.raises(InputError, match="teacher_scores: holds scores that are not finite"):
        fused_ranking(good, spoilt)
