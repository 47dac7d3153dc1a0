"""DebCSE's alternating normalisation against its equations in loops, in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nearer.errors import InputError
from nearer.objectives import alternating_norm, info_nce
from nearer.objectives.alternating_norm import EPSILON, batch_norm

Vector = list[float]


def cosine(a: Vector, b: Vector) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / max(math.hypot(*a), 1e-12) / max(math.hypot(*b), 1e-12)


def batch_norm_by_hand(rows: Sequence[Vector]) -> list[Vector]:
    normed = [[0.0] * len(rows[0]) for _ in rows]
    for d in range(len(rows[0])):
        mean = sum(row[d] for row in rows) / len(rows)
        variance = sum((row[d] - mean) ** 2 for row in rows) / len(rows)
        for place, row in enumerate(rows):
            normed[place][d] = (row[d] - mean) / math.sqrt(variance + EPSILON)
    return normed


def term_by_hand(
    z: list[Vector], h: list[Vector], z_other: list[Vector], z_mined: list[list[Vector]], t: float, as_printed: bool
) -> float:
    """Eq. 8 (and with the towers exchanged Eq. 9), averaged over the batch."""
    losses = []
    for i in range(len(z)):
        denominator = [] if as_printed else [cosine(z[i], h[i]) / t]
        for mined in z_mined[i]:
            denominator.append(cosine(z[i], mined) / t)
        for j in range(len(z)):
            if j != i:
                denominator.append(cosine(z[i], z_other[j]) / t)
        top = max(denominator)
        losses.append(top + math.log(sum(math.exp(e - top) for e in denominator)) - cosine(z[i], h[i]) / t)
    return sum(losses) / len(losses)


def by_hand(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | None,
    t: float,
    normalise: bool = True,
    printed: bool = False,
) -> float:
    """Eq. 7."""
    h, h_plus = anchors.double().tolist(), positives.double().tolist()
    mined = [[] for _ in h] if negatives is None else negatives.double().tolist()
    z, z_plus, z_mined = h, h_plus, mined
    if normalise:
        z, z_plus = batch_norm_by_hand(h), batch_norm_by_hand(h_plus)
        flat = [row for rows in mined for row in rows]
        if flat:
            normed = iter(batch_norm_by_hand(flat))
            z_mined = [[next(normed) for _ in rows] for rows in mined]
    return term_by_hand(z, h_plus, z_plus, z_mined, t, printed) + term_by_hand(z_plus, h, z, z_mined, t, printed)


def vectors(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def towers(batch: int, mined: int, size: int = 6, *, constant: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """constant: one dimension is the same in all rows of a tower."""
    anchors = vectors(batch, size, seed=1) + 0.7
    positives = anchors + 0.4 * vectors(batch, size, seed=2)
    negatives = vectors(batch, mined, size, seed=3) - 0.2
    if constant:
        anchors[:, 2], positives[:, 4], negatives[..., 0] = 3.0, -1.0, 0.5
    return anchors, positives, negatives


@pytest.mark.parametrize("batch", [2, 5])
@pytest.mark.parametrize("mined", [0, 1, 3])
@pytest.mark.parametrize("temperature", [0.0125, 0.05, 1.0])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("as_printed", [True, False])
@pytest.mark.parametrize("constant", [True, False])
def test_equals_the_equations(
    batch: int, mined: int, temperature: float, normalise: bool, as_printed: bool, constant: bool
) -> None:
    given_towers = towers(batch, mined, constant=constant)
    loss = alternating_norm(*given_towers, temperature=temperature, normalise=normalise, as_printed=as_printed)
    expected = by_hand(*given_towers, temperature, normalise, as_printed)
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    single = alternating_norm(
        *(tower.float() for tower in given_towers),
        temperature=temperature,
        normalise=normalise,
        as_printed=as_printed,
    )
    assert single.item() == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_no_mined_negatives_are_none_of_them() -> None:
    anchors, positives, nothing = towers(5, 0)
    assert torch.equal(alternating_norm(anchors, positives), alternating_norm(anchors, positives, nothing))


def test_without_normalisation_it_is_info_nce_in_both_directions() -> None:
    anchors, positives, _ = towers(5, 0)
    both = info_nce(anchors, positives) + info_nce(positives, anchors)
    torch.testing.assert_close(alternating_norm(anchors, positives, normalise=False), both)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("as_printed", [True, False])
@pytest.mark.parametrize("mined", [0, 2])
def test_gradients_are_those_of_the_numbers(normalise: bool, as_printed: bool, mined: int) -> None:
    given_towers = [tower.requires_grad_() for tower in towers(3, mined, 4)]
    options: dict[str, Any] = {"temperature": 0.5, "normalise": normalise, "as_printed": as_printed}
    assert torch.autograd.gradcheck(lambda *t: alternating_norm(*t, **options), given_towers)


@pytest.mark.parametrize("as_printed", [True, False])
def test_a_tower_of_equal_sentences_gives_finite_numbers(as_printed: bool) -> None:
    anchors, positives, negatives = (tower.float() for tower in towers(4, 2))
    equal = anchors[:1].expand(4, -1).clone()
    for given_towers in ([equal, positives, negatives], [anchors, equal, negatives], [equal, equal, negatives * 0]):
        leaves = [tower.clone().requires_grad_() for tower in given_towers]
        loss = alternating_norm(*leaves, as_printed=as_printed)
        loss.backward()
        assert math.isfinite(loss.item())
        assert all(bool(torch.isfinite(leaf.grad).all()) for leaf in leaves)


def test_batch_norm_is_that_of_torch() -> None:
    rows = towers(7, 0, constant=True)[0]
    wanted = torch.nn.functional.batch_norm(rows, None, None, training=True, eps=EPSILON)
    torch.testing.assert_close(batch_norm(rows), wanted)
    assert bool((batch_norm(rows)[:, 2] == 0).all())


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(0, 3), st.integers(0, 1000), st.floats(0.5, 200))
def test_the_length_of_vectors_says_nothing(batch: int, mined: int, seed: int, factor: float) -> None:
    """One factor for a whole tower; without normalisation one for each vector."""
    anchors, positives = vectors(batch, 5, seed=seed), vectors(batch, 5, seed=seed + 1)
    negatives = vectors(batch, mined, 5, seed=seed + 2)
    plain = alternating_norm(anchors, positives, negatives, normalise=False)
    lengths = torch.linspace(1, factor, batch, dtype=torch.float64)[:, None]
    scaled = alternating_norm(anchors * lengths, positives * factor, negatives * lengths[:, None], normalise=False)
    torch.testing.assert_close(scaled, plain)
    large = [1000 * tower for tower in (anchors, positives, negatives)]  # next to which epsilon is nothing
    normed = alternating_norm(*large, temperature=1.0)
    scaled = alternating_norm(*(factor * tower for tower in large), temperature=1.0)
    torch.testing.assert_close(scaled, normed, atol=1e-3, rtol=1e-3)


def test_a_shift_of_a_tower_moves_its_plain_vectors_alone() -> None:
    """In z it is gone; in h it is not. Mined negatives are there in z only."""
    anchors, positives, negatives = towers(5, 2)
    loss = alternating_norm(anchors, positives, negatives)
    torch.testing.assert_close(alternating_norm(anchors, positives, negatives + 3), loss)
    assert float(abs(alternating_norm(anchors, positives + 3, negatives) - loss)) > 0.01


def test_mined_negatives_count_for_their_own_anchor_alone() -> None:
    anchors, positives, _ = towers(4, 0)
    mined = vectors(4, 1, 6, seed=9)
    mined[2, 0] = anchors[2]  # as near as can be to one anchor: without normalisation nobody else sees it
    losses = [
        alternating_norm(anchors, positives, mined[:, :count], normalise=False, temperature=0.001) for count in (0, 1)
    ]
    far = alternating_norm(anchors, positives, -positives[:, None], normalise=False, temperature=0.001)
    assert losses[1] > losses[0] + 1
    torch.testing.assert_close(far, losses[0])


def test_half_precision_is_computed_in_float32() -> None:
    low = [tower.bfloat16() for tower in towers(32, 2, 16)]
    loss = alternating_norm(*low)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(alternating_norm(*(tower.double() for tower in low)).item(), rel=1e-4)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((1, 4), (1, 4), None), r"^anchors: a batch of 2 at least"),
        (((4,), (4,), None), r"^anchors: "),
        (((3, 4), (2, 4), None), r"^positives: must have the shape of anchors; \(3, 4\) and \(2, 4\) given\.$"),
        (((3, 4), (3, 4), (3, 4)), r"^negatives: \(3, m, 4\) expected, \(3, 4\) given\.$"),
        (((3, 4), (3, 4), (2, 1, 4)), r"^negatives: "),
        (((3, 4), (3, 4), (3, 1, 5)), r"^negatives: "),
    ],
)
def test_shapes_that_cannot_be_meant(shapes: tuple[Any, Any, Any], message: str) -> None:
    given_towers = [None if shape is None else torch.ones(shape) for shape in shapes]
    with pytest.raises(InputError, match=message):
        alternating_norm(*given_towers)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("tower", [0, 1, 2])
def test_what_is_not_a_number_is_named(value: float, tower: int) -> None:
    given_towers = towers(3, 2)
    given_towers[tower].view(-1)[1] = value
    with pytest.raises(InputError, match=rf"^{('anchors', 'positives', 'negatives')[tower]}: holds values"):
        alternating_norm(*given_towers)


@pytest.mark.parametrize("as_printed", [True, False])
def test_off_the_cpu_no_value_is_looked_at(as_printed: bool) -> None:
    """So that a step can be captured: tensors without values go through it, and a look at one would be an error."""
    leaves = [torch.empty(shape, device="meta", requires_grad=True) for shape in ((4, 6), (4, 6), (4, 2, 6))]
    alternating_norm(*leaves, as_printed=as_printed).backward()
    assert all(leaf.grad is not None for leaf in leaves)
