"""The losses of CT, SBERT and IS-BERT against loops in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nearer.objectives import contrastive_tension, cosine_regression, mutual_information, pair_classes


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_contrastive_tension_is_a_mean_over_the_pairs_that_count(batch: int) -> None:
    scores, pairs = 3 * numbers(batch, batch, seed=1), numbers(batch, batch, seed=2) > 0
    pairs[0, 0] = True
    each = []
    for i in range(batch):
        for j in range(batch):
            if pairs[i, j]:
                share = 1 / (1 + math.exp(-scores[i, j].item()))
                each.append(-math.log(share if i == j else 1 - share))
    assert contrastive_tension(scores, pairs).item() == pytest.approx(sum(each) / len(each), abs=1e-12)


def test_tension_stays_finite_where_a_pair_is_beyond_doubt() -> None:
    scores = torch.tensor([[-1e4, 1e4], [1e4, -1e4]], requires_grad=True)
    loss = contrastive_tension(scores, torch.ones(2, 2, dtype=torch.bool))
    loss.backward()
    assert loss.item() == pytest.approx(1e4)
    assert scores.grad is not None
    assert torch.equal(scores.grad, torch.tensor([[-0.25, 0.25], [0.25, -0.25]]))


def test_classes_are_a_cross_entropy() -> None:
    logits, classes = numbers(5, 3, seed=3), [0, 2, 1, 1, 0]
    each = [
        math.log(sum(math.exp(score) for score in row)) - row[right]
        for row, right in zip(logits.tolist(), classes, strict=True)
    ]
    assert pair_classes(logits, torch.tensor(classes)).item() == pytest.approx(sum(each) / 5, abs=1e-12)


def test_regression_is_on_cosines() -> None:
    first, second, scores = numbers(6, 4, seed=4), numbers(6, 4, seed=5), numbers(6, seed=6)
    each = []
    for a, b, score in zip(first.tolist(), second.tolist(), scores.tolist(), strict=True):
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        each.append((dot / math.hypot(*a) / math.hypot(*b) - score) ** 2)
    assert cosine_regression(first, second, scores).item() == pytest.approx(sum(each) / 6, abs=1e-12)


@pytest.mark.parametrize("sentences", [1, 4])
def test_mutual_information_is_the_jensen_shannon_estimate(sentences: int) -> None:
    scores, real = 3 * numbers(9, sentences, seed=7), [True] * 7 + [False] * 2
    owner = [part % sentences for part in range(9)]
    near, far = [], []
    for part in range(7):
        for sentence in range(sentences):
            r = scores[part, sentence].item()
            if owner[part] == sentence:
                near.append(math.log(2) - math.log1p(math.exp(-r)))
            else:
                far.append(math.log1p(math.exp(-r)) + r - math.log(2))
    wanted = sum(far) / (7 * max(1, sentences - 1)) - sum(near) / 7
    own = torch.tensor(owner)[:, None] == torch.arange(sentences)
    assert mutual_information(scores, own, torch.tensor(real)).item() == pytest.approx(wanted, abs=1e-12)
