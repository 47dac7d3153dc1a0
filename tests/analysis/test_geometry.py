"""Alignment, uniformity, anisotropy and spectrum against their definitions, by loops in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.analysis.geometry import (
    alignment,
    anisotropy,
    effective_rank,
    measure_geometry,
    positives,
    singular_spectrum,
    uniformity,
)
from nearer.errors import InputError

NORMALS = st.builds(
    lambda seed, count, size, shift: shift + np.random.default_rng(seed).standard_normal((count, size)),
    st.integers(0, 10**6),
    st.integers(2, 14),
    st.integers(1, 7),
    st.sampled_from([0.0, 1.0, 30.0]),
)


def units(vectors: np.ndarray) -> list[np.ndarray]:
    return [vector / math.sqrt(float(vector @ vector)) for vector in vectors.astype(np.float64)]


def distinct_pairs(vectors: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    points = units(vectors)
    return [(one, two) for place, one in enumerate(points) for two in points[place + 1 :]]


def squared(one: np.ndarray, two: np.ndarray) -> float:
    return float(sum((a - b) ** 2 for a, b in zip(one, two, strict=True)))


def alignment_by_hand(first: np.ndarray, second: np.ndarray) -> float:
    distances = [squared(one, two) for one, two in zip(units(first), units(second), strict=True)]
    return sum(distances) / len(distances)


def uniformity_by_hand(vectors: np.ndarray) -> float:
    terms = [math.exp(-2 * squared(one, two)) for one, two in distinct_pairs(vectors)]
    return math.log(sum(terms) / len(terms))


@settings(max_examples=60, deadline=None)
@given(vectors=NORMALS, block=st.integers(1, 20))
def test_against_the_definitions_whatever_the_block(vectors: np.ndarray, block: int) -> None:
    assert uniformity(vectors, block=block) == pytest.approx(uniformity_by_hand(vectors), abs=2e-6)
    cosines = [float(one @ two) for one, two in distinct_pairs(vectors)]
    assert anisotropy(vectors) == pytest.approx(sum(cosines) / len(cosines), abs=1e-12)
    other = np.roll(vectors, 1, axis=0)
    assert alignment(vectors, other) == pytest.approx(alignment_by_hand(vectors, other), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(vectors=NORMALS, scale=st.floats(1e-6, 1e6))
def test_lengths_do_not_count(vectors: np.ndarray, scale: float) -> None:
    lengths = scale * np.arange(1, len(vectors) + 1)[:, None]
    assert uniformity(vectors * lengths) == pytest.approx(uniformity(vectors), abs=2e-6)
    assert anisotropy(vectors * lengths) == pytest.approx(anisotropy(vectors), abs=1e-12)
    assert alignment(vectors * lengths, vectors) == pytest.approx(0, abs=1e-12)


def test_spectrum_by_the_roots_of_the_eigenvalues() -> None:
    vectors = np.random.default_rng(2).standard_normal((40, 5)) * [9, 5, 2, 1, 0.1] + 1
    points = np.array(units(vectors))
    roots = np.sqrt(np.sort(np.linalg.eigvalsh(points.T @ points))[::-1])
    spectrum = singular_spectrum(vectors)
    np.testing.assert_allclose(spectrum, roots / roots[0], rtol=1e-9)
    shares = [root / sum(roots) for root in roots]
    assert effective_rank(spectrum) == pytest.approx(math.exp(-sum(share * math.log(share) for share in shares)))


@pytest.mark.parametrize("rank", [1, 3])
def test_effective_rank_of_equal_directions_is_their_number(rank: int) -> None:
    assert effective_rank(singular_spectrum(np.repeat(np.eye(5)[:rank], 4, axis=0))) == pytest.approx(rank)


def test_extremes() -> None:
    assert uniformity(np.full((5, 3), 0.7)) == pytest.approx(0, abs=1e-6)  # all alike
    assert uniformity(np.array([[1.0, 0.0], [-1.0, 0.0]])) == pytest.approx(-8, abs=1e-5)  # opposite
    assert anisotropy(np.eye(4)) == pytest.approx(0, abs=1e-12)


def test_a_vector_of_zeros_is_orthogonal_to_all() -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 0.0]])
    assert uniformity(vectors) == pytest.approx(-4, abs=1e-6)
    assert alignment(vectors, vectors[::-1]) == pytest.approx(2)
    assert anisotropy(vectors) == 0


def test_tensors_stay_where_they_are_and_count_the_same() -> None:
    vectors = np.random.default_rng(3).standard_normal((30, 4)).astype(np.float32)
    assert uniformity(torch.from_numpy(vectors)) == uniformity(vectors)
    assert anisotropy(torch.from_numpy(vectors)) == anisotropy(vectors)


def test_positives_are_scored_above_the_threshold_not_at_it() -> None:
    assert positives(np.array([4.0, 4.01, 5.0, 1.0])).tolist() == [1, 2]
    assert positives(np.array([0.5, 0.9]), 0.8).tolist() == [1]


def test_measured_together() -> None:
    vectors = np.random.default_rng(4).standard_normal((6, 3))
    first, second = np.array([0, 2, 4]), np.array([1, 3, 5])
    found = measure_geometry(vectors, first, second, np.array([4.5, 1.0, 4.2]))
    assert found.alignment == pytest.approx(alignment_by_hand(vectors[[0, 4]], vectors[[1, 5]]))
    assert found.uniformity == pytest.approx(uniformity_by_hand(vectors), abs=2e-6)
    assert (found.sentences, found.positives, found.threshold) == (6, 2, 4.0)
    assert measure_geometry(vectors, first, second, np.array([4.0, 1.0, 2.0])).alignment is None


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: positives(np.array([1.0, 3.5])),
            "no pair is scored above 4, the highest gold score is 3.5; set a lower",
        ),
        (lambda: positives(np.array([])), "there are no pairs"),
        (lambda: uniformity(np.ones((1, 3))), "vectors: 1 given, at least 2 are needed"),
        (lambda: anisotropy(np.ones((1, 3))), "vectors: 1 given, at least 2"),
        (lambda: uniformity(np.ones(3)), r"of shape \(3,\), one row a sentence"),
        (lambda: uniformity(np.array([[1.0, np.nan], [1.0, 2.0], [np.inf, 0]])), "2 of 3 are not finite numbers"),
        (lambda: alignment(np.empty((0, 3)), np.empty((0, 3))), "positive pairs: 0 given, at least 1"),
        (lambda: alignment(np.ones((2, 3)), np.ones((3, 3))), "equal shapes are needed"),
        (lambda: singular_spectrum(np.zeros((3, 2))), "all are zero"),
    ],
)
def test_what_cannot_be_measured(call: object, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        call()  # type: ignore[operator]
    assert "\n" not in str(caught.value)
