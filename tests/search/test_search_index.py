"""What is found, beside plain numpy; several threads; growing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from search_text import QUERIES, write_lines

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.search import SearchIndex
from nearer.search import tuning as choosing
from nearer.search.nearest_neighbours import Rows, Structure, Vectors

KINDS = ["exact", "ivf", "hnsw"]


def by_hand(encoder: Encoder, texts: list[str], query: str, k: int) -> list[tuple[int, float]]:
    """Rows and cosines, falling, equal texts in their order."""
    vectors = [vector / np.linalg.norm(vector) for vector in encoder.encode(texts).astype(np.float64)]
    asked = encoder.encode(query).astype(np.float64)
    scores = [float(vector @ asked / np.linalg.norm(asked)) for vector in vectors]
    same = dict(zip(texts, scores, strict=True))
    return sorted(((row, same[text]) for row, text in enumerate(texts)), key=lambda one: (-one[1], one[0]))[:k]


class TestSearching:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("k", [1, 7, 60])
    def test_as_by_hand(self, kind: str, k: int, encoder: Encoder, corpus: Path, tmp_path: Path) -> None:
        index = SearchIndex.build(encoder, corpus, tmp_path / kind, kind=kind, recall=1.0)
        texts = corpus.read_text().splitlines()
        assert len(set(texts)) < len(texts)  # there are equal ones
        for query, hits in zip(QUERIES, index.search(QUERIES, k), strict=True):
            wanted = by_hand(encoder, texts, query, k)
            assert [hit.row for hit in hits] == [row for row, _ in wanted]
            np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in wanted], atol=1e-6)
            assert [(hit.text, hit.line) for hit in hits] == [(texts[row], row + 1) for row, _ in wanted]
            assert all(hit.score == hit.cosine and hit.source == str(corpus) for hit in hits)

    def test_vectors_are_asked_as_texts_are(self, index: SearchIndex, encoder: Encoder) -> None:
        for scaled, plain in zip(index.search(7 * encoder.encode(QUERIES), 5), index.search(QUERIES, 5), strict=True):
            assert [hit.row for hit in scaled] == [hit.row for hit in plain]
            np.testing.assert_allclose([hit.score for hit in scaled], [hit.score for hit in plain], atol=1e-6)
        assert index.search(QUERIES[0], 5) == index.search(QUERIES, 5)[0]
        assert index.search([]) == []

    def test_of_fewer_than_asked_for_all_come(self, index: SearchIndex) -> None:
        assert sorted(hit.row for hit in index.search("rain", 1000)) == list(range(60))

    def test_probes_that_hold_too_little(self, encoder: Encoder, corpus: Path, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setattr(choosing, "TRAINED_PER_LIST", 4)
        index = SearchIndex.build(encoder, corpus, tmp_path / "ivf", kind="ivf", recall=0.01)
        assert index.manifest.structure is not None
        assert (index.manifest.structure.groups, index.manifest.structure.effort) == (16, 1)
        assert index.search("rain", 50) == index.search("rain", 50, exact=True)
        assert len(index.search("rain", 50)) == 50

    def test_lines_of_a_file_with_dropped_ones_and_line_breaks(self, encoder: Encoder, tmp_path: Path) -> None:
        texts = ["Naïve café: 東京", "two\nlines\r\nof rain", "🦊 fox\u2028dog"]
        lines = [json.dumps({"text": text}) for text in texts]
        path = write_lines(tmp_path / "texts.jsonl", [lines[0], "{broken", lines[1], '{"text": ""}', lines[2]])
        index = SearchIndex.build(encoder, path, tmp_path / "index")
        reopened = SearchIndex.open(tmp_path / "index", model=encoder)
        found = {hit.line: hit.text for hit in reopened.search("rain", 5)}
        assert found == dict(zip([1, 3, 5], index.texts, strict=True))
        assert [text.split() for text in index.texts] == [text.split() for text in texts]
        assert index.manifest.sources[0].reading["dropped"] == 2

    @pytest.mark.parametrize("kind", KINDS)
    def test_threads(self, kind: str, encoder: Encoder, corpus: Path, tmp_path: Path) -> None:
        SearchIndex.build(encoder, corpus, tmp_path / kind, kind=kind)
        index = SearchIndex.open(tmp_path / kind, model=encoder)
        wanted = [SearchIndex.open(tmp_path / kind, model=encoder).search(query, 5) for query in QUERIES]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: index.search(QUERIES[n % 4], 5), range(64)))
        assert found == [wanted[n % 4] for n in range(64)]

    @pytest.mark.parametrize(
        ("queries", "message"),
        [
            ("", "queries: item 0 is empty"),
            (["rain", " \n"], "queries: item 1 is empty"),
            (["rain", 3], "item 1 is int"),
            (np.ones(32), r"vectors of shape \(32,\) given, \(queries, 32\) needed"),
            (np.ones((2, 31)), r"vectors of shape \(2, 31\) given"),
            (np.full((1, 32), np.nan), "not finite"),
        ],
    )
    def test_queries_that_cannot_be(self, index: SearchIndex, queries: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            index.search(queries)  # type: ignore[call-overload]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"k": 0}, "k: 0 is below 1"),
            ({"k": 5, "rerank": 3}, "give 5 or more"),
            ({"inference_weight": 0.5}, "counts in reranking only"),
            ({"rerank": 20, "inference_weight": 1.5}, "1.5 is not between 0 and 1"),
        ],
    )
    def test_settings_that_cannot_be(self, index: SearchIndex, options: dict[str, float], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            index.search("rain", **options)  # type: ignore[call-overload]


class TestAdding:
    def test_as_built_of_both(self, index: SearchIndex, encoder: Encoder, corpus: Path, more: Path) -> None:
        both = write_lines(
            corpus.with_name("both.txt"), [*corpus.read_text().splitlines(), *more.read_text().split("\n")]
        )
        whole = SearchIndex.build(encoder, both, corpus.with_name("whole"))
        index.add(more)
        assert list(index.texts) == list(whole.texts)
        np.testing.assert_allclose(index.vectors, whole.vectors, atol=1e-6)
        for query in QUERIES:
            grown, built = index.search(query, 100), whole.search(query, 100)
            assert [hit.row for hit in grown] == [hit.row for hit in built]
            np.testing.assert_allclose([hit.score for hit in grown], [hit.score for hit in built], atol=1e-6)
            assert all(
                (hit.source, hit.line) == ((str(corpus), hit.row + 1) if hit.row < 60 else (str(more), hit.row - 59))
                for hit in grown
            )

    @pytest.mark.parametrize("kind", ["ivf", "hnsw"])
    def test_approximate_kinds_know_the_new_ones(
        self, kind: str, encoder: Encoder, corpus: Path, more: Path, tmp_path: Path
    ) -> None:
        index = SearchIndex.build(encoder, corpus, tmp_path / kind, kind=kind, recall=1.0)
        trained = index.manifest.structure
        index.add(more)
        assert index.search(QUERIES, 20) == index.search(QUERIES, 20, exact=True)
        assert trained is not None
        assert index.manifest.structure is not None
        assert index.manifest.structure.trained_rows == trained.trained_rows == 60
        assert sorted(path.name for path in (tmp_path / kind).glob("*.faiss")) == [f"{kind}-2.faiss"]
        index.add(more, again=True)  # more than double now: an IVF's lists are made anew
        assert index.manifest.structure.trained_rows == (140 if kind == "ivf" else 60)

    def test_auto_outgrows_exact(self, encoder: Encoder, corpus: Path, more: Path, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setattr(choosing, "EXACT_UP_TO", 80 * encoder.dimension)
        monkeypatch.setattr(choosing, "HNSW_UP_TO", 120 * encoder.dimension)
        index = SearchIndex.build(encoder, corpus, tmp_path / "auto", recall=1.0)
        kinds = [index.manifest.kind]
        for _ in range(2):
            index.add(more, again=True)
            kinds.append(index.manifest.kind)
            assert index.search(QUERIES, 9) == index.search(QUERIES, 9, exact=True)
        assert kinds == ["exact", "hnsw", "ivf"]
        assert [path.name for path in index.folder.glob("*.faiss")] == ["ivf-3.faiss"]

    def test_auto_does_without_a_graph_that_misses_too_much(
        self, encoder: Encoder, corpus: Path, more: Path, tmp_path: Path, monkeypatch
    ) -> None:
        monkeypatch.setattr(choosing, "EXACT_UP_TO", 1)
        propose = Structure.propose

        def poor(self: Structure, queries: Vectors, k: int, effort: int) -> Rows:
            rows = propose(self, queries, k, effort)
            return np.where(rows % 2 == 0, rows, -1) if self.kind == "hnsw" else rows

        monkeypatch.setattr(Structure, "propose", poor)
        index = SearchIndex.build(encoder, corpus, tmp_path / "auto")
        assert index.manifest.kind == "ivf"
        assert [path.name for path in index.folder.glob("*.faiss")] == ["ivf-1.faiss"]
        index.add(more)
        assert index.manifest.kind == "ivf"

    def test_one_that_was_opened_before_sees_what_it_saw(
        self, index: SearchIndex, encoder: Encoder, more: Path
    ) -> None:
        other = SearchIndex.open(index.folder, model=encoder)
        before = other.search(QUERIES, 10)
        index.add(more)
        assert other.search(QUERIES, 10) == before
        other.add(more, again=True)  # what the first one added is not lost
        assert len(other) == 140
        assert len(SearchIndex.open(index.folder)) == 140

    def test_nothing_to_add(self, index: SearchIndex, tmp_path: Path) -> None:
        before = (index.folder / "manifest.json").read_bytes()
        with pytest.raises(InputError, match="nothing in it could be used"):
            index.add(write_lines(tmp_path / "empty.txt", ["", " "]))
        assert (index.folder / "manifest.json").read_bytes() == before
        assert len(SearchIndex.open(index.folder)) == 60
