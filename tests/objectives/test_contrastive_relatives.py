"""Losses of ArcCSE and ConSERT against loops in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.objectives import arc_con, info_nce, masked_order, nt_xent, with_angular_margin


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
