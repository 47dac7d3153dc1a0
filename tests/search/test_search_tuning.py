"""Kinds by size, and a recall that is what it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.errors import SettingError
from nearer.search.nearest_neighbours import Structure
from nearer.search.tuning import _least, choose_effort, choose_groups, choose_kind


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Clusters that overlap, with some rows twice."""
    draw = np.random.default_rng(3)
    centres = draw.standard_normal((40, 24))
    rows = centres[draw.integers(0, 40, 2400)] + draw.standard_normal((2400, 24))
    rows[2300:] = rows[:100]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def recall_by_hand(structure: Structure, vectors: np.ndarray, effort: int, rows: list[int]) -> float:
    """Of each row's ten nearest others, the share that is among the ten best of what the structure proposes."""
    shares = []
    for row in rows:
        scores = vectors.astype(np.float64) @ vectors[row].astype(np.float64)
        tenth = sorted((float(score) for other, score in enumerate(scores) if other != row), reverse=True)[9]
        proposed = [
            int(one) for one in structure.propose(vectors[row : row + 1], 27, effort)[0] if one not in (-1, row)
        ]
        found = sorted((float(scores[one]) for one in proposed), reverse=True)[:10]
        shares.append(sum(score >= tenth - 1e-12 for score in found) / 10)
    return float(np.mean(shares))


class TestKind:
    @pytest.mark.parametrize(
        ("count", "dimension", "kind"),
        [
            (1, 256, "exact"),
            (131_072, 256, "exact"),
            (131_073, 256, "hnsw"),
            (43_000, 768, "exact"),
            (50_000, 768, "hnsw"),
            (524_288, 256, "hnsw"),
            (1_000_000, 256, "ivf"),
        ],
    )
    def test_auto_goes_by_size(self, count: int, dimension: int, kind: str) -> None:
        assert choose_kind("auto", count, dimension) == kind

    def test_auto_keeps_to_what_is_there(self) -> None:
        assert [choose_kind("auto", 200_000, 256, before) for before in ("exact", "hnsw", "ivf")] == [
            "hnsw",
            "hnsw",
            "ivf",
        ]
        assert choose_kind("auto", 2_000_000, 256, "hnsw") == "ivf"

    def test_what_is_asked_for_is_taken(self) -> None:
        assert [choose_kind(kind, 10, 10) for kind in ("exact", "ivf", "hnsw")] == ["exact", "ivf", "hnsw"]  # type: ignore[arg-type]
        with pytest.raises(SettingError, match="'nope' is not one of auto, exact, ivf, hnsw"):
            choose_kind("nope", 10, 10)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("count", "lists"), [(1, 1), (60, 2), (1000, 32), (100_000, 1024), (1_000_000, 4096)])
    def test_lists(self, count: int, lists: int) -> None:
        assert choose_groups("ivf", count) == lists


class TestRecall:
    @pytest.mark.parametrize("kind", ["ivf", "hnsw"])
    @pytest.mark.parametrize("wanted", [0.5, 0.9])
    def test_the_measured_one_is_true(self, kind: str, wanted: float, vectors: np.ndarray) -> None:
        groups = choose_groups("ivf", len(vectors)) if kind == "ivf" else 4
        structure = Structure.build(kind, vectors, groups, 0, lambda amount=1: None)  # type: ignore[arg-type]
        effort, recall, sample = choose_effort(structure, vectors, groups, wanted, 0)
        assert sample == 200
        drawn = np.random.default_rng(0).permutation(len(vectors))[:600].tolist()
        assert recall == pytest.approx(recall_by_hand(structure, vectors, effort, drawn[:200]))
        assert recall_by_hand(structure, vectors, effort, drawn[200:]) >= wanted
        everywhere = recall_by_hand(structure, vectors, effort, list(range(0, 2400, 8)))
        assert abs(everywhere - recall) < 0.05
        if effort > (2 if kind == "ivf" else 27):  # not much more than is needed
            assert recall_by_hand(structure, vectors, effort - max(1, effort // 4), drawn[200:]) < wanted + 0.06

    def test_all_lists_find_all(self, vectors: np.ndarray) -> None:
        structure = Structure.build("ivf", vectors, 32, 0, lambda amount=1: None)
        effort, recall, _ = choose_effort(structure, vectors, 32, 1.0, 0)
        assert recall == 1.0 or effort == 32

    @given(st.integers(1, 300), st.integers(1, 50), st.integers(0, 300))
    def test_the_least_effort(self, needed: int, least: int, more: int) -> None:
        found = _least(lambda effort: effort >= needed, least, least + more)
        if needed <= least:
            assert found == least
        elif needed >= least + more:
            assert found == least + more
        else:
            assert needed <= found <= needed + max(1, needed // 8)
