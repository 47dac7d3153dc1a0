"""Start sentences: clusters of unit vectors, and what is drawn from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nearer.analysis import kmeans
from nearer.analysis.kmeans import cluster, fit_centres, nearest, spread_out
from nearer.construct.start_sentences import ClusteredStarts, GivenStarts, draw, read_starts, write_starts
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.teachers import VectorStore
from nearer.text import read_sentences


def groups(count: int, each: int, seed: int = 0, spread: float = 0.05, size: int = 24) -> NDArray[np.float32]:
    """Unit vectors around `count` random directions, one group after the other."""
    random = np.random.default_rng(seed)
    directions = np.repeat(random.normal(size=(count, size)), each, axis=0)
    vectors = directions + spread * random.normal(size=directions.shape) * np.sqrt(size)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def by_hand(points: NDArray[np.float64], centres: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """Lloyd's rounds, point by point; for starts that leave no cluster empty."""
    for _ in range(rounds):
        members: list[list[NDArray[np.float64]]] = [[] for _ in centres]
        for point in points:
            members[max(range(len(centres)), key=lambda c: float(point @ centres[c]))].append(point)
        assert all(members)
        means = [np.sum(some, axis=0) for some in members]
        centres = np.array([mean / np.linalg.norm(mean) for mean in means])
    return centres


def test_rounds_are_those_of_the_slow_version() -> None:
    points = groups(5, 30, spread=0.4)
    first = spread_out(torch.from_numpy(points), 5, np.random.default_rng(3)).double().numpy()
    found = fit_centres(torch.from_numpy(points), 5, np.random.default_rng(3), rounds=6)
    np.testing.assert_allclose(found.numpy(), by_hand(points.astype(np.float64), first, 6), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_clear_groups_are_found(seed: int) -> None:
    vectors = groups(12, 20, seed, spread=0.01)
    labels = cluster(vectors.astype(np.float16), np.arange(len(vectors)), 12, seed)
    assert [len(set(labels[begin : begin + 20])) for begin in range(0, 240, 20)] == [1] * 12
    assert len(set(labels)) == 12


def test_fitting_to_a_sample_labels_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans, "FITTED_PER_CLUSTER", 12)
    monkeypatch.setattr(kmeans, "SEEDED_PER_CLUSTER", 6)
    monkeypatch.setattr(kmeans, "BLOCK", 17)
    vectors = groups(6, 50, spread=0.01)
    labels = cluster(vectors, np.arange(300), 6, 0)
    assert [len(set(labels[begin : begin + 50])) for begin in range(0, 300, 50)] == [1] * 6


def test_a_centre_without_points_moves_to_one_that_is_far_from_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.nn.functional.normalize(torch.tensor([[1.0, 0.02], [1.0, 0.0], [1.0, -0.02], [0.0, 1.0]]), dim=1)
    nobodys = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    monkeypatch.setattr(kmeans, "spread_out", lambda *_: nobodys.clone())
    labels, _ = nearest(points, fit_centres(points, 2, np.random.default_rng(0)))
    assert labels.tolist() in ([0, 0, 0, 1], [1, 1, 1, 0])


def test_only_rows_that_are_named_are_clustered() -> None:
    vectors = groups(4, 25)
    rows = np.arange(0, 100, 3)
    poisoned = np.full_like(vectors, np.nan)
    poisoned[rows] = vectors[rows]
    np.testing.assert_array_equal(cluster(poisoned, rows, 4, 1), cluster(vectors[rows], np.arange(len(rows)), 4, 1))


def test_copies_leave_clusters_empty_but_do_no_harm() -> None:
    vectors = np.repeat(groups(2, 1), 10, axis=0)
    labels = cluster(vectors, np.arange(20), 5, 0)
    assert len(set(labels[:10])) == len(set(labels[10:])) == 1


@given(
    labels=st.lists(st.integers(0, 6), min_size=1, max_size=60), per_cluster=st.integers(1, 8), seed=st.integers(0, 99)
)
@settings(deadline=None)
def test_each_cluster_gives_what_it_has_and_no_more_than_asked(labels: list[int], per_cluster: int, seed: int) -> None:
    drawn = draw(np.array(labels), 7, per_cluster, seed)
    assert len(set(drawn)) == len(drawn)
    taken = Counter(labels[place] for place in drawn)
    assert taken == Counter({label: min(count, per_cluster) for label, count in Counter(labels).items()})
    turns = [sum(labels[before] == labels[place] for before in drawn[:at]) for at, place in enumerate(drawn)]
    assert turns == sorted(turns)  # first one of each, then the second of each


def test_all_members_are_as_likely() -> None:
    counts = Counter(draw(np.zeros(4, dtype=np.int64), 1, 1, seed)[0] for seed in range(400))
    assert sum((counts[place] - 100) ** 2 / 100 for place in range(4)) < 16.3  # chi-square, 3 degrees, p = 0.001


@pytest.fixture
def encoder(tiny_model) -> Encoder:  # type: ignore[no-untyped-def]
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    lines = [f"the {a} {b}" for a in ("fox", "dog", "man", "rain") for b in ("eats", "comes", "jumps", "has lunch")]
    path.write_text("\n".join([*lines[:8], "", "the fox eats", *lines[8:]]) + "\n")
    return path


def test_starts_are_sentences_of_the_corpus_each_once(encoder: Encoder, corpus: Path) -> None:
    reading = read_sentences(corpus)
    chosen = ClusteredStarts(reading, VectorStore(encoder), 3, 100, seed=0).choose()
    sentences = list(read_sentences(corpus))
    assert [sentences[start.index] for start in chosen.members] == [start.sentence for start in chosen.members]
    assert sorted(start.sentence for start in chosen.members) == sorted(set(sentences))  # 17 records, one of them twice
    assert [start.number for start in chosen.members] == list(range(16))
    assert {start.cluster for start in chosen.members[:3]} == {0, 1, 2}
    assert chosen.short == 3


def test_seeds_decide(encoder: Encoder, corpus: Path) -> None:
    def chosen(seed: int) -> list[str]:
        source = ClusteredStarts(read_sentences(corpus), VectorStore(encoder), 4, 2, seed)
        return [start.sentence for start in source.choose().members]

    assert chosen(0) == chosen(0)
    assert chosen(0) != chosen(1)


def test_fewer_different_sentences_than_clusters(encoder: Encoder, corpus: Path) -> None:
    source = ClusteredStarts(read_sentences(corpus), VectorStore(encoder), 17, 1, 0)
    with pytest.raises(InputError, match=r"corpus.txt: has 16 different sentences, fewer than the 17 clusters"):
        source.choose()
    with pytest.raises(SettingError, match="per_cluster: 0"):
        ClusteredStarts(read_sentences(corpus), VectorStore(encoder), 2, 0, 0)


def test_starts_are_kept_as_they_are(tmp_path: Path, encoder: Encoder, corpus: Path) -> None:
    starts = ClusteredStarts(read_sentences(corpus), VectorStore(encoder), 4, 3, 0).choose()
    write_starts(starts, tmp_path / "starts.jsonl")
    assert read_starts(tmp_path / "starts.jsonl") == starts
    with open(tmp_path / "starts.jsonl", "a") as file:
        file.write('{"sentence": "cut')
    with pytest.raises(InputError, match=r"starts.jsonl: is damaged; remove it"):
        read_starts(tmp_path / "starts.jsonl")


def test_a_users_own_starts_are_taken_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("b\na\u2028x\n\nb\n")
    starts = GivenStarts(read_sentences(tmp_path / "own.txt")).choose()
    assert [(start.sentence, start.index, start.cluster) for start in starts.members] == [
        ("b", 0, None),
        ("a\u2028x", 1, None),
        ("b", 2, None),
    ]
    write_starts(starts, tmp_path / "starts.jsonl")
    assert read_starts(tmp_path / "starts.jsonl") == starts
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(InputError, match="nothing in it could be used"):
        GivenStarts(read_sentences(tmp_path / "none.txt")).choose()
