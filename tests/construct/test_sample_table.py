"""The table of similarities: means by hand, for the three ways of sampling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from debiased_parts import different_sentences
from rich.console import Console

from nearer.analysis.words import lexical_overlap, words
from nearer.construct import sample_table
from nearer.construct.debiased_sampler import DistinctSentences
from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.teachers import VectorStore
from nearer.text import read_sentences, read_triplets

SENTENCES = different_sentences(40)


@pytest.fixture
def store(tiny_model: Callable[[str], Path]) -> VectorStore:
    return VectorStore(Encoder.load(tiny_model("bert"), pooling="mean", device="cpu"))


@pytest.fixture
def corpus(store: VectorStore, tmp_path: Path) -> DistinctSentences:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(reversed(SENTENCES)) + "\n")
    store.rows(read_sentences(path))  # known from another corpus, in another order
    path.write_text("\n".join([SENTENCES[3], *SENTENCES, SENTENCES[0]]) + "\n")
    return DistinctSentences.learn(read_sentences(path), store)


def test_a_corpus_has_each_sentence_once_with_its_vector(corpus: DistinctSentences, store: VectorStore) -> None:
    order = [SENTENCES[3], *(sentence for sentence in SENTENCES if sentence != SENTENCES[3])]
    assert corpus.sentences == order
    assert corpus.repeated == 2
    np.testing.assert_allclose(store.vectors()[corpus.rows], store.encoder.encode(order, normalize=True), atol=4e-4)


def test_a_corpus_that_grows_meanwhile(store: VectorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("the fox\nrain\n")
    rows = store.rows

    def grown(*arguments: object, **options: object) -> object:
        found = rows(*arguments, **options)  # type: ignore[arg-type]
        path.write_text("the fox\nrain\nthe dog\n")
        return found

    monkeypatch.setattr(store, "rows", grown)
    with pytest.raises(InputError, match="changed while it was read"):
        DistinctSentences.learn(read_sentences(path), store)


def test_contrastive_pairs_are_the_sentence_itself_and_a_random_other(
    corpus: DistinctSentences, store: VectorStore
) -> None:
    anchors = np.arange(40)
    found = sample_table.contrastive_samples(corpus, store, anchors, seed=0)
    assert found.means()["positive_overlap"] == found.means()["positive_cosines"] == 1.0
    assert found.negative_overlap.max() < 1  # never the sentence itself
    every = [lexical_overlap(words(a), words(b)) for a in SENTENCES for b in SENTENCES if a != b]
    assert found.means()["negative_overlap"] == pytest.approx(np.mean(every), abs=0.06)
    vectors = store.encoder.encode(SENTENCES, normalize=True)
    mean = (vectors.sum(axis=0) ** 2).sum() / (40 * 39) - 1 / 39
    assert found.means()["negative_cosines"] == pytest.approx(mean, abs=0.02)
    again, other = (sample_table.contrastive_samples(corpus, store, anchors, seed=seed) for seed in (0, 1))
    assert (again.negative_cosines == found.negative_cosines).all()
    assert (other.negative_cosines != found.negative_cosines).any()


def test_triplets_by_the_same_encoder(store: VectorStore, tmp_path: Path) -> None:
    path = tmp_path / "nli.tsv"
    rows = [SENTENCES[place : place + 3] for place in range(0, 30, 3)]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    found = sample_table.supervised_samples(read_triplets(path), store, seed=0)
    for column, kind in ((1, "positive"), (2, "negative")):
        shared = [lexical_overlap(words(row[0]), words(row[column])) for row in rows]
        near = [store.encoder.similarity(row[0], row[column]) for row in rows]
        np.testing.assert_allclose(getattr(found, f"{kind}_overlap"), shared)
        np.testing.assert_allclose(getattr(found, f"{kind}_cosines"), near, atol=1e-5)


def test_a_survey_looks_at_the_chosen_and_counts_all() -> None:
    def record(shared: float, pool: int, candidates: int) -> dict[str, object]:
        kinds = ("positive_overlap", "negative_overlap", "positive_cosines", "negative_cosines")
        return {
            "positives": ["a", "b"],
            "negatives": ["c", "d", "e"],
            "negative_pool": pool,
            "positive_pool": candidates,
            **{kind: [shared + place, shared + place] for place, kind in enumerate(kinds)},
        }

    records = [(0, record(0.1, 3, 2)), (4, record(0.5, 1, 1)), (9, record(0.3, 0, 0))]
    found, counts = sample_table.survey(records, np.array([0, 9]))
    assert found.means() == {
        "positive_overlap": 0.2,
        "negative_overlap": 1.2,
        "positive_cosines": 2.2,
        "negative_cosines": 3.2,
    }
    assert counts == {
        "negatives from below": 5,
        "short pools": 2,
        "empty pools": 1,
        "without candidates": 1,
        "repeated positives": 1,
    }


def test_anchors_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sample_table.chosen_anchors(7).tolist() == list(range(7))
    monkeypatch.setattr(sample_table, "MOST", 5)
    assert sample_table.chosen_anchors(101).tolist() == [0, 25, 50, 75, 100]


def test_table_and_figure(corpus: DistinctSentences, store: VectorStore, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plain = sample_table.contrastive_samples(corpus, store, np.arange(40), seed=0)
    values = np.linspace(0.2, 0.8, 10)
    other = sample_table.Samples("debiased", values, values, values, values)
    console = Console(record=True, width=150)
    console.print(sample_table.samples_table([plain, other]))
    row = next(line for line in console.export_text().splitlines() if "debiased" in line)
    assert [cell.strip() for cell in row.split("│")[2:-1]] == ["0.50", "0.50", "0.50", "0.50", "20"]
    svg, png = sample_table.write_figure([plain, other], tmp_path)
    drawn = svg.read_text(encoding="utf-8")
    for text in ("contrastive (all 1)", "debiased", "positives", "negatives", "cosine with the anchor"):
        assert text in drawn
    assert png.stat().st_size > 1000
