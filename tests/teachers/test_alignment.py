"""Teachers' vectors turned into a student's space."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.teachers.alignment import SAMPLE, Alignment, fit_alignment, sample_rows


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(0, 6), st.integers(0, 99))
def test_as_many_dimensions_or_more_keep_all_products(theirs: int, more: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    known, own = random.normal(size=(40, theirs)), random.normal(size=(40, theirs + more))
    turned = known @ fit_alignment(known, own)
    np.testing.assert_allclose(turned @ turned.T, known @ known.T, atol=1e-3)


@pytest.mark.parametrize("extra", [0, 3])
def test_a_space_that_was_only_turned_is_turned_back(extra: int) -> None:
    """Of a teacher with more dimensions, those that hardly vary are left out."""
    random = np.random.default_rng(0)
    own = random.normal(size=(60, 5))
    turn, _ = np.linalg.qr(random.normal(size=(5 + extra, 5 + extra)))
    known = np.concatenate([own, 1e-4 * random.normal(size=(60, extra))], axis=1) @ turn
    np.testing.assert_allclose(known @ fit_alignment(known, own), own, atol=1e-3)


def test_no_turn_of_the_main_directions_is_nearer() -> None:
    random = np.random.default_rng(1)
    known, own = random.normal(size=(50, 7)) * np.arange(7, 0, -1), random.normal(size=(50, 4))
    fitted = fit_alignment(known, own)
    _, _, directions = np.linalg.svd(known, full_matrices=False)
    best = ((known @ fitted) * own).sum()
    for _ in range(200):
        turn, _ = np.linalg.qr(random.normal(size=(4, 4)))
        assert ((known @ directions[:4].T @ turn) * own).sum() <= best + 1e-6


def test_directions_have_length_one_and_the_matrix_is_kept() -> None:
    module = Alignment(np.eye(3, 2, dtype=np.float32))
    found = module(torch.tensor([[3.0, 4.0, 9.0]], dtype=torch.float16))
    torch.testing.assert_close(found, torch.tensor([[0.6, 0.8]]))
    assert list(module.state_dict()) == ["matrix"]


def test_rows_are_from_everywhere() -> None:
    assert sample_rows(5).tolist() == [0, 1, 2, 3, 4]
    rows = sample_rows(10 * SAMPLE)
    assert (len(rows), rows[0], rows[-1]) == (SAMPLE, 0, 10 * SAMPLE - 1)
