"""The contrastive loss against two loops in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.objectives import info_nce, masked_language


def info_nce_by_hand(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | None,
    temperature: float,
    weight: float = 1.0,
    kind: str = "cosine",
) -> float:
    def similarity(a: Tensor, b: Tensor) -> float:
        dot = sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))
        if kind == "dot":
            return dot
        return dot / math.sqrt(sum(x * x for x in a.tolist())) / math.sqrt(sum(x * x for x in b.tolist()))

    losses = []
    for i, anchor in enumerate(anchors.double()):
        exponents = [similarity(anchor, positive) / temperature for positive in positives.double()]
        own = exponents[i]
        if negatives is not None:
            for j, negative in enumerate(negatives.double()):
                exponents.append(similarity(anchor, negative) / temperature + (math.log(weight) if i == j else 0))
        top = max(exponents)
        losses.append(top + math.log(sum(math.exp(e - top) for e in exponents)) - own)
    return sum(losses) / len(losses)


def vectors(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("batch", [1, 2, 7])
@pytest.mark.parametrize("size", [1, 3, 16])
@pytest.mark.parametrize("temperature", [0.001, 0.05, 1.0])
@pytest.mark.parametrize("hard", [None, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_equals_two_loops(batch: int, size: int, temperature: float, hard: float | None, kind: str) -> None:
    anchors, positives, negatives = (vectors(batch, size, seed=s) for s in (1, 2, 3))
    given_negatives = None if hard is None else negatives
    loss = info_nce(
        anchors,
        positives,
        given_negatives,
        temperature=temperature,
        hard_negative_weight=hard or 1.0,
        similarity=kind,
    )
    expected = info_nce_by_hand(anchors, positives, given_negatives, temperature, hard or 1.0, kind)
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_more_negatives_are_counted_where_they_are_real(kind: str) -> None:
    """As if the batch had further positives, which are nobody's own (ESimCSE)."""
    anchors, positives, more = vectors(5, 4, seed=1), vectors(5, 4, seed=2), vectors(6, 4, seed=3)
    real = torch.tensor([True, False, True, True, False, True])
    loss = info_nce(anchors, positives, similarity=kind, more_negatives=(more, real))
    expected = info_nce_by_hand(anchors, torch.cat([positives, more[real]]), None, 0.05, kind=kind)
    assert loss.item() == pytest.approx(expected, rel=1e-9)


def test_what_is_not_real_has_no_gradient() -> None:
    anchors, positives = vectors(3, 4, seed=1).requires_grad_(), vectors(3, 4, seed=2)
    info_nce(
        anchors, positives, more_negatives=(vectors(2, 4, seed=3) * 0, torch.zeros(2, dtype=torch.bool))
    ).backward()
    gradient, anchors.grad = anchors.grad, None
    info_nce(anchors, positives).backward()
    torch.testing.assert_close(gradient, anchors.grad)


@pytest.mark.parametrize("hard", [False, True])
def test_gradients_are_those_of_the_numbers(hard: bool) -> None:
    tensors = [vectors(3, 4, seed=s).requires_grad_() for s in range(3 if hard else 2)]
    assert torch.autograd.gradcheck(lambda *t: info_nce(*t, temperature=0.5, hard_negative_weight=2.0), tensors)


def test_half_precision_vectors_are_compared_in_float32() -> None:
    anchors, positives = vectors(64, 32, seed=1), vectors(64, 32, seed=2)
    low = info_nce(anchors.bfloat16(), positives.bfloat16())
    exact = info_nce(anchors.bfloat16().double(), positives.bfloat16().double())
    assert low.dtype == torch.float32
    assert low.item() == pytest.approx(exact.item(), rel=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.integers(0, 1000), st.floats(0.01, 1))
def test_never_negative_and_least_when_each_positive_is_its_anchor(batch: int, seed: int, temperature: float) -> None:
    anchors = vectors(batch, 8, seed=seed)
    perfect = info_nce(anchors, anchors, temperature=temperature)
    shifted = info_nce(anchors, anchors.roll(1, dims=0), temperature=temperature)
    assert 0 <= perfect.item() <= shifted.item() + 1e-9


def test_masked_language_sums_the_cross_entropies() -> None:
    logits, targets = vectors(5, 9, seed=4), torch.tensor([0, 8, 3, 3, 1])
    expected = sum(
        math.log(sum(math.exp(x) for x in row)) - row[target]
        for row, target in zip(logits.tolist(), targets.tolist(), strict=True)
    )
    assert masked_language(logits, targets).item() == pytest.approx(expected, rel=1e-9)
