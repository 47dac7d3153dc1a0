"""The losses of SNCSE, DiffCSE, CoSENT and AnglE against loops in float64, and the last two against their peers."""

from __future__ import annotations

import cmath
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.objectives import angle, bidirectional_margin, cosent, replaced_tokens


def vectors(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(x * x for x in b))


@pytest.mark.parametrize("batch", [1, 2, 9])
@pytest.mark.parametrize("margins", [(0.1, 0.3), (0.0, 0.0), (0.5, 1.5)])
def test_the_margin_loss_is_the_papers(batch: int, margins: tuple[float, float]) -> None:
    anchors, positives, negatives = (vectors(batch, 5, seed=seed) for seed in (1, 2, 3))
    smallest, largest = margins
    each = []
    for a, p, n in zip(anchors.tolist(), positives.tolist(), negatives.tolist(), strict=True):
        difference = cosine(a, n) - cosine(a, p)
        each.append(max(difference + smallest, 0.0) + max(-difference - largest, 0.0))
    found = bidirectional_margin(anchors, positives, negatives, smallest=smallest, largest=largest)
    assert found.item() == pytest.approx(sum(each) / batch, abs=1e-12)


def test_no_gradient_between_the_margins() -> None:
    anchors = torch.tensor([[1.0, 0.0]], requires_grad=True)
    bidirectional_margin(anchors, torch.tensor([[1.0, 0.0]]), torch.tensor([[0.8, 0.6]])).backward()
    assert anchors.grad is not None
    assert anchors.grad.abs().sum() == 0


def test_replaced_tokens_are_a_mean_over_real_ones() -> None:
    logits = vectors(6, 2, seed=4)
    replaced = torch.tensor([True, False, True, False, True, False])
    real = torch.tensor([True, True, True, True, False, False])
    each = []
    for (kept, swapped), label in zip(logits[:4].tolist(), replaced[:4].tolist(), strict=True):
        right = swapped if label else kept
        each.append(math.log(math.exp(kept) + math.exp(swapped)) - right)
    assert replaced_tokens(logits, replaced, real).item() == pytest.approx(sum(each) / 4, abs=1e-12)
    nothing = torch.zeros(6, dtype=torch.bool)
    assert replaced_tokens(logits, replaced, nothing).item() == 0


def in_order(near: list[float], scores: list[float]) -> float:
    total = 1.0
    for i, upper in enumerate(scores):
        for k, lower in enumerate(scores):
            if upper > lower:
                total += math.exp(near[k] - near[i])
    return math.log(total)


@given(scores=st.lists(st.integers(0, 5), min_size=1, max_size=7), seed=st.integers(0, 9), even=st.integers(1, 4))
@settings(max_examples=40)
def test_scored_pairs_are_the_loops(scores: list[int], seed: int, even: int) -> None:
    first, second = vectors(len(scores), 2 * even, seed=seed), vectors(len(scores), 2 * even, seed=seed + 50)
    given_scores = torch.tensor(scores, dtype=torch.float64)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    cosines = [cosine(a, b) / 0.5 for a, b in pairs]
    assert cosent(first, second, given_scores, temperature=0.5).item() == pytest.approx(
        in_order(cosines, [float(score) for score in scores]), abs=1e-9
    )
    angles = []
    for a, b in pairs:
        one = [complex(re, im) for re, im in zip(a[:even], a[even:], strict=True)]
        other = [complex(re, im) for re, im in zip(b[:even], b[even:], strict=True)]
        lengths = [math.sqrt(sum(abs(z) ** 2 for z in each)) for each in (one, other)]
        quotient = sum(z * w.conjugate() for z, w in zip(one, other, strict=True)) / (lengths[0] * lengths[1])
        angles.append(abs(quotient.real + quotient.imag) / 0.5)
        assert cmath.isfinite(quotient)
    assert angle(first, second, given_scores, temperature=0.5).item() == pytest.approx(
        in_order(angles, [float(score) for score in scores]), abs=1e-9
    )


def test_the_peers_have_the_same() -> None:
    from sentence_transformers.util import pairwise_angle_sim, pairwise_cos_sim

    first, second, scores = vectors(6, 8, seed=1), vectors(6, 8, seed=2), torch.tensor([0.0, 5, 2, 2, 1, 4])
    for ours, theirs in ((cosent, pairwise_cos_sim), (angle, pairwise_angle_sim)):
        near = theirs(first, second) * 20
        differences = near[:, None] - near[None, :]
        differences = differences - (1 - (scores[:, None] < scores[None, :]).double()) * 1e12
        wanted = torch.logsumexp(torch.cat([torch.zeros(1), differences.view(-1)]), dim=0)
        torch.testing.assert_close(ours(first, second, scores), wanted)
