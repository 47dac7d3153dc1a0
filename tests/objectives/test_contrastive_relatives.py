"""Losses of ArcCSE, ConSERT, DCLR and PCL against loops in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.objectives import (
    agreement,
    arc_con,
    group_contrast,
    group_logits,
    harder_noise,
    info_nce,
    masked_order,
    noise_cross_entropy,
    nt_xent,
    with_angular_margin,
)


def vectors(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(one: Tensor, other: Tensor) -> float:
    a, b = one.tolist(), other.tolist()
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(x * x for x in b))


class TestArcCon:
    @pytest.mark.parametrize("degrees", [0, 10, 45])
    @pytest.mark.parametrize("batch", [1, 2, 6])
    def test_equals_loops_over_angles(self, batch: int, degrees: float) -> None:
        anchors, positives = vectors(batch, 5, seed=1), vectors(batch, 5, seed=2)
        margin, losses = math.radians(degrees), []
        for i in range(batch):
            angles = [math.acos(cosine(anchors[i], positives[j])) for j in range(batch)]
            terms = [math.exp(math.cos(angle + margin * (i == j)) / 0.5) for j, angle in enumerate(angles)]
            losses.append(-math.log(terms[i] / sum(terms)))
        found = arc_con(anchors, positives, temperature=0.5, margin=margin)
        assert found.item() == pytest.approx(sum(losses) / batch, rel=1e-9)

    def test_without_a_margin_it_is_info_nce(self) -> None:
        anchors, positives = vectors(4, 5, seed=1), vectors(4, 5, seed=2)
        torch.testing.assert_close(arc_con(anchors, positives, margin=0.0), info_nce(anchors, positives))

    def test_gradients_of_equal_vectors_are_finite(self) -> None:
        anchors = vectors(4, 5, seed=1).float().requires_grad_()
        arc_con(anchors, anchors.detach()).backward()
        assert anchors.grad is not None
        assert anchors.grad.isfinite().all()

    def test_the_margin_leaves_further_candidates_alone(self) -> None:
        cosines = torch.rand(3, 7, generator=torch.Generator().manual_seed(0))
        found = with_angular_margin(cosines, 0.2)
        changed = found != cosines
        assert torch.equal(changed, torch.eye(3, 7, dtype=torch.bool))


@settings(deadline=None, max_examples=30)
@given(batch=st.integers(1, 6), seed=st.integers(0, 99), margin=st.sampled_from([0.0, 0.3]))
def test_masked_order_equals_a_loop(batch: int, seed: int, margin: float) -> None:
    whole, less, more = (vectors(batch, 4, seed=seed + n) for n in range(3))
    counted = torch.rand(batch, generator=torch.Generator().manual_seed(seed)) < 0.6
    each = [
        max(0.0, cosine(whole[i], more[i]) - cosine(whole[i], less[i]) + margin) for i in range(batch) if counted[i]
    ]
    found = masked_order(whole, less, more, counted, margin=margin)
    assert found.item() == pytest.approx(sum(each) / max(1, len(each)), rel=1e-9, abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(batch=st.integers(1, 6), seed=st.integers(0, 99), temperature=st.sampled_from([0.1, 1.0]))
def test_nt_xent_equals_loops_in_both_directions(batch: int, seed: int, temperature: float) -> None:
    a, b = vectors(batch, 4, seed=seed), vectors(batch, 4, seed=seed + 1)
    losses = []
    for own, other in ((a, b), (b, a)):
        for i in range(batch):
            near = math.exp(cosine(own[i], other[i]) / temperature)
            far = sum(math.exp(cosine(own[i], other[j]) / temperature) for j in range(batch) if j != i)
            far += sum(math.exp(cosine(own[i], own[j]) / temperature) for j in range(batch) if j != i)
            losses.append(-math.log(near / (near + far)))
    found = nt_xent(a, b, temperature=temperature)
    assert found.item() == pytest.approx(sum(losses) / len(losses), rel=1e-9, abs=1e-12)


class TestNoise:
    def test_it_moves_along_the_gradient_by_the_same_way_each_time(self) -> None:
        """The gradient by differences of a loss that is written out."""
        anchors, positives, noise = vectors(3, 4, seed=1), vectors(3, 4, seed=2), vectors(2, 4, seed=3)

        def loss(moved: Tensor) -> float:
            each = []
            for i in range(3):
                terms = [math.exp(cosine(anchors[i], other) / 0.5) for other in (*positives, *moved)]
                each.append(-math.log(terms[i] / sum(terms)))
            return sum(each) / 3

        wanted = noise.clone()
        for _ in range(2):
            gradient = torch.zeros_like(wanted)
            for k in range(2):
                for d in range(4):
                    more, less = wanted.clone(), wanted.clone()
                    more[k, d] += 1e-6
                    less[k, d] -= 1e-6
                    gradient[k, d] = (loss(more) - loss(less)) / 2e-6
            wanted = wanted + 0.1 * gradient / gradient.norm(dim=1, keepdim=True)
        found = harder_noise(anchors, positives, noise, temperature=0.5, steps=2, size=0.1)
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)
        assert loss(found) > loss(noise)

    def test_it_leaves_the_vectors_gradient_alone(self) -> None:
        anchors, positives = vectors(3, 4, seed=1).requires_grad_(), vectors(3, 4, seed=2)
        found = harder_noise(anchors, positives, vectors(2, 4, seed=3))
        assert not found.requires_grad
        assert anchors.grad is None

    def test_the_released_loss_equals_loops(self) -> None:
        anchors, positives, noise = vectors(4, 5, seed=1), vectors(4, 5, seed=2), vectors(3, 5, seed=3)
        excluded = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)) < 0.4
        each = []
        for i in range(4):
            weights = [0.0 if excluded[i, j] and i != j else 1.0 for j in range(4)] + [1.0] * 3
            scores = [cosine(anchors[i], other) / 0.5 for other in (*positives, *noise)]
            terms = [math.exp(weight * score) for weight, score in zip(weights, scores, strict=True)]
            for j, term in enumerate(terms):
                share = term / sum(terms)
                each.append(-math.log(share) if i == j else -math.log(1 - share))
        found = noise_cross_entropy(anchors, positives, noise, excluded, temperature=0.5)
        assert found.item() == pytest.approx(sum(each) / len(each), rel=1e-9)


class TestGroups:
    def lists(self, anchors: Tensor, positives: Tensor, others: Tensor) -> list[list[float]]:
        return [
            [cosine(anchors[i], other) / 0.5 for other in positives[i]]
            + [cosine(anchors[i], others[j]) / 0.5 for j in range(len(others)) if j != i]
            for i in range(len(anchors))
        ]

    def softmax(self, row: list[float]) -> list[float]:
        terms = [math.exp(value) for value in row]
        return [term / sum(terms) for term in terms]

    @pytest.mark.parametrize("batch", [2, 5])
    def test_they_equal_loops(self, batch: int) -> None:
        first, second = vectors(batch, 6, seed=1), vectors(batch, 6, seed=4)
        positives = vectors(batch, 3, 6, seed=2)
        logits = group_logits(first, positives, second, temperature=0.5)
        by_hand = self.lists(first, positives, second)
        torch.testing.assert_close(logits, torch.tensor(by_hand, dtype=torch.float64))
        plain = [-math.log(share) for row in by_hand for share in self.softmax(row)[:3]]
        assert group_contrast(logits, 3).item() == pytest.approx(sum(plain) / len(plain))
        each = []
        for row in by_hand:
            for number, share in enumerate(self.softmax(row)):
                sigmoid = 1 / (1 + math.exp(-share))
                each.append(-math.log(sigmoid if number < 3 else 1 - sigmoid))
        assert group_contrast(logits, 3, variant="released").item() == pytest.approx(sum(each) / len(each))

    def test_agreement_equals_loops(self) -> None:
        target, logits = vectors(3, 5, seed=1), vectors(3, 5, seed=2)
        each = [
            [p * math.log(p / q) for p, q in zip(self.softmax(one), self.softmax(other), strict=True)]
            for one, other in zip(target.tolist(), logits.tolist(), strict=True)
        ]
        assert agreement(target, logits).item() == pytest.approx(sum(map(sum, each)) / 3)
        assert agreement(target, logits, variant="released").item() == pytest.approx(sum(map(sum, each)) / 15)
