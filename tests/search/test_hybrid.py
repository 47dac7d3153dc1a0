"""An index with BM25 beside its vectors answers as slow loops do, and after changes as one that is built fresh."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_text import QUERIES, sentences, write_lines

from nearer import CrossEncoder, Encoder, SearchIndex, SearchSetup
from nearer.errors import DamagedError, InputError, ModelError, SettingError
from nearer.search import building
from nearer.search.hybrid import rank_texts
from nearer.search.lexical import LexicalIndex
from nearer.search.setup import RerankerSetup, write_setup
from nearer.search.verify import find_damage

pytest.importorskip("bm25s")
Nearer = Callable[..., Any]


@pytest.fixture
def hybrid(encoder: Encoder, corpus: Path, tmp_path: Path) -> SearchIndex:
    return SearchIndex.build(encoder, corpus, tmp_path / "hybrid", lexical_weight=0.7)


@pytest.fixture(scope="session")
def judge(tiny_cross_encoder: Callable[..., Path]) -> CrossEncoder:
    return CrossEncoder.load(tiny_cross_encoder(), device="cpu")


def z(values: list[float]) -> list[float]:
    spread = float(np.std(values))
    return [(value - float(np.mean(values))) / max(spread, 1e-6) for value in values]


def cosines_by_hand(encoder: Encoder, texts: list[str], query: str) -> list[float]:
    found: list[float] = (encoder.encode(texts, normalize=True) @ encoder.encode([query], normalize=True)[0]).tolist()
    return found


def by_hand(
    encoder: Encoder, texts: list[str], query: str, lexical_weight: float, judge: CrossEncoder | None = None
) -> dict[str, float]:
    """The fused score of each text; equal texts have one."""
    cosines = cosines_by_hand(encoder, texts, query)
    words = LexicalIndex.build(texts).scores([query], np.arange(len(texts))[None])[0].tolist()
    fused = [one + lexical_weight * two for one, two in zip(z(cosines), z(words), strict=True)]
    if judge is not None:
        read = judge.score([query], texts, [(0, number) for number in range(len(texts))]).tolist()
        fused = [one + two for one, two in zip(fused, z(read), strict=True)]
    return dict(zip(texts, fused, strict=True))


def described(index: SearchIndex, k: int = 200) -> list[list[tuple[str, float]]]:
    """What is found of all rows, without their numbers, which follow from the index' past."""
    found = index.search(QUERIES, k, candidates=200)
    return [sorted((hit.text, round(hit.score, 4)) for hit in hits) for hits in found]


class TestSearch:
    def test_it_answers_as_loops_do(self, hybrid: SearchIndex, encoder: Encoder, corpus: Path) -> None:
        texts = corpus.read_text().splitlines()
        for query in QUERIES:
            expected = by_hand(encoder, texts, query, 0.7)
            cosines = dict(zip(texts, cosines_by_hand(encoder, texts, query), strict=True))
            hits = hybrid.search(query, len(texts))
            assert len(hits) == len(texts)
            for hit in hits:
                assert hit.score == pytest.approx(expected[hit.text], abs=1e-4)
                assert hit.cosine == pytest.approx(cosines[hit.text], abs=1e-5)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_candidates_of_both_sides_are_looked_at(self, encoder: Encoder, tmp_path: Path) -> None:
        """With one candidate of each side: the nearest by vectors, and the one that has the rare word."""
        texts = [*sentences(30, 5), "until someone has lunch far away and rain comes over a lazy zebra"]
        index = SearchIndex.build(encoder, texts, tmp_path / "index", lexical_weight=1)
        plain = index.search("zebra", 1, lexical_weight=0)[0]
        hits = index.search("zebra", 1, candidates=1)
        both = index.snapshot.best_by_words(["zebra"], 1)[0, 0]
        assert plain.row != both == 30
        assert hits[0].row in (plain.row, both)
        assert hits[0].score == pytest.approx(0, abs=1e-9)  # of two candidates, each the best by one judge

    def test_a_weight_of_its_own(self, hybrid: SearchIndex, index: SearchIndex, encoder: Encoder) -> None:
        assert hybrid.search("rain", 5, lexical_weight=0) == index.search("rain", 5)
        texts = list(hybrid.texts)
        best = hybrid.search("rain", 1, lexical_weight=5)[0]
        expected = by_hand(encoder, texts, "rain", 5)
        assert best.score == pytest.approx(max(expected.values()), abs=1e-4)

    def test_several_queries_are_as_one_by_one(self, hybrid: SearchIndex) -> None:
        together, alone = hybrid.search(QUERIES, 7), [hybrid.search(query, 7) for query in QUERIES]
        for several, one in zip(together, alone, strict=True):
            assert [replace(hit, score=0, cosine=0) for hit in several] == [
                replace(hit, score=0, cosine=0) for hit in one
            ]
            # products of a matrix and of a vector may be rounded in other ways
            assert [hit.score for hit in several] == pytest.approx([hit.score for hit in one], abs=1e-5)
            assert [hit.cosine for hit in several] == pytest.approx([hit.cosine for hit in one], abs=1e-6)
        assert hybrid.search((query for query in QUERIES), 7) == hybrid.search(QUERIES, 7)  # type: ignore[call-overload]
        assert hybrid.search([], 7) == []

    def test_a_cross_encoder_has_a_second_look(
        self, hybrid: SearchIndex, encoder: Encoder, corpus: Path, judge: CrossEncoder
    ) -> None:
        texts = corpus.read_text().splitlines()
        expected = by_hand(encoder, texts, QUERIES[0], 0.7, judge)
        hits = hybrid.search(QUERIES[0], 60, reranker=judge, candidates=60)
        for hit in hits:
            assert hit.score == pytest.approx(expected[hit.text], abs=1e-3)
        by_name = hybrid.search(QUERIES[0], 60, reranker=judge.name, candidates=60)
        assert [(hit.row, round(hit.score, 4)) for hit in by_name] == [(hit.row, round(hit.score, 4)) for hit in hits]

    def test_it_looks_at_the_best_alone(self, index: SearchIndex, judge: CrossEncoder) -> None:
        nearest = {hit.row for hit in index.search("rain", 6)}
        reranked = index.search("rain", 4, reranker=judge, candidates=6, rerank_weight=50)
        assert {hit.row for hit in reranked} < nearest
        scores = judge.score(["rain"], [hit.text for hit in reranked], [(0, number) for number in range(4)])
        assert (np.diff(scores) <= 1e-4).all()

    def test_of_passages_a_document_is_found_once(self, encoder: Encoder, tmp_path: Path) -> None:
        documents = [{"_id": str(n), "text": " ".join(sentences(8, n))} for n in range(12)]
        source = tmp_path / "documents.jsonl"
        source.write_text("".join(json.dumps(document) + "\n" for document in documents))
        index = SearchIndex.build(encoder, source, tmp_path / "index", passages=12, lexical_weight=1)
        hits = index.search("rain comes", 12, candidates=5)
        assert len(hits) == len({hit.document for hit in hits}) == 12
        assert len({hit.document for hit in index.search("rain comes", 30, all_passages=True)}) < 30


class TestChanges:
    def test_what_is_added_counts_as_in_a_fresh_build(
        self, hybrid: SearchIndex, encoder: Encoder, corpus: Path, more: Path, tmp_path: Path
    ) -> None:
        hybrid.add(more)
        together = write_lines(tmp_path / "all.txt", [*corpus.read_text().splitlines(), *more.read_text().splitlines()])
        fresh = SearchIndex.build(encoder, together, tmp_path / "fresh", lexical_weight=0.7)
        assert described(hybrid) == described(fresh)
        assert described(SearchIndex.open(hybrid.folder, model=encoder)) == described(fresh)
        assert [path.name for path in hybrid.folder.glob("lexical*")] == ["lexical-2"]

    def test_what_is_removed_or_replaced_counts_no_more(self, encoder: Encoder, tmp_path: Path) -> None:
        lines = sentences(40, 3)

        def write(name: str, records: list[tuple[str, str]]) -> Path:
            path = tmp_path / name
            path.write_text("".join(json.dumps({"_id": id, "text": text}) + "\n" for id, text in records))
            return path

        first = write("first.jsonl", [(str(n), line) for n, line in enumerate(lines[:30])])
        index = SearchIndex.build(encoder, first, tmp_path / "index", lexical_weight=1)
        index.add(write("second.jsonl", [(str(n + 20), line) for n, line in enumerate(lines[30:])]))  # replaces ten
        assert index.remove(["3", "25"]) == 2
        left = [(str(n), lines[n]) for n in range(20) if n != 3] + [(str(n), lines[n + 10]) for n in range(20, 30)]
        fresh = SearchIndex.build(
            encoder,
            write("left.jsonl", [one for one in left if one[0] != "25"]),
            tmp_path / "fresh",
            lexical_weight=1,
        )
        assert described(index) == described(fresh)
        assert find_damage(index.folder) == []

    def test_an_addition_that_fails_at_its_end_changes_nothing(
        self, hybrid: SearchIndex, encoder: Encoder, more: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, write = described(hybrid), building.write_sealed_json

        def fail(path: Path, content: dict[str, Any]) -> None:
            if path.name == "manifest.json":
                raise OSError(28, "No space left on device")
            write(path, content)

        monkeypatch.setattr(building, "write_sealed_json", fail)
        with pytest.raises(InputError, match="No space left"):
            hybrid.add(more)
        assert described(SearchIndex.open(hybrid.folder, model=encoder)) == before
        monkeypatch.setattr(building, "write_sealed_json", write)
        hybrid.add(more)
        assert len(hybrid) == 100
        assert [path.name for path in hybrid.folder.glob("*lexical*")] == ["lexical-2"]
        assert find_damage(hybrid.folder) == []

    def test_an_open_index_goes_on_with_what_it_saw(self, hybrid: SearchIndex, encoder: Encoder, more: Path) -> None:
        other = SearchIndex.open(hybrid.folder, model=encoder)
        before = described(other)
        hybrid.add(more)
        assert described(other) == before


class TestDamage:
    @pytest.mark.parametrize("name", ["data.npy", "terms.txt", "checksums.json"])
    def test_it_is_found_and_told(self, name: str, hybrid: SearchIndex) -> None:
        path = hybrid.folder / "lexical-1" / name
        content = path.read_bytes()
        path.write_bytes(content[:-9] + b"#" + content[-8:])
        assert any(name in line for line in find_damage(hybrid.folder))
        with pytest.raises(DamagedError, match=name):
            SearchIndex.open(hybrid.folder)

    def test_it_is_missing(self, hybrid: SearchIndex) -> None:
        shutil.rmtree(hybrid.folder / "lexical-1")
        with pytest.raises(DamagedError, match=r"lexical-1: is missing; build the index anew from .*corpus.txt"):
            SearchIndex.open(hybrid.folder)

    def test_it_is_of_other_rows(self, hybrid: SearchIndex) -> None:
        LexicalIndex.build(["rain"]).save(hybrid.folder / "lexical-1", overwrite=True)
        with pytest.raises(DamagedError, match="is over 1 texts, the manifest says 60"):
            SearchIndex.open(hybrid.folder)


class TestRefused:
    def test_an_index_without_words(self, index: SearchIndex) -> None:
        assert not list(index.folder.glob("lexical*"))
        with pytest.raises(InputError, match="no BM25 beside its vectors; build it anew with a lexical weight above 0"):
            index.search("rain", lexical_weight=1)

    def test_vectors(self, hybrid: SearchIndex, encoder: Encoder) -> None:
        vectors = encoder.encode(["rain"])
        with pytest.raises(SettingError, match="vectors have no words"):
            hybrid.search(vectors)
        assert len(hybrid.search(vectors, 3, lexical_weight=0)[0]) == 3

    def test_settings(self, hybrid: SearchIndex, tiny_model: Callable[[str], Path]) -> None:
        with pytest.raises(SettingError, match="rerank: is by vectors alone"):
            hybrid.search("rain", 2, rerank=20)
        with pytest.raises(SettingError, match="rerank_weight: there is no reranker"):
            hybrid.search("rain", rerank_weight=2)
        with pytest.raises(SettingError, match=r"lexical_weight: .*greater than or equal to 0 \(-1 given\)"):
            hybrid.search("rain", lexical_weight=-1)
        with pytest.raises(ModelError, match="is no cross-encoder"):
            hybrid.search("rain", reranker=tiny_model("bert"))


class TestSetUp:
    @pytest.fixture
    def model(self, encoder: Encoder, judge: CrossEncoder, tmp_path: Path) -> Path:
        folder = tmp_path / "set-up"
        encoder.save(folder)
        shutil.copytree(judge.name, folder / "reranker")
        reranker = RerankerSetup(model="reranker/", weight=0.5, candidates=20)
        write_setup(folder, SearchSetup(lexical_weight=0.3, reranker=reranker, candidates=30))
        return folder

    def test_commands_take_it_as_it_is(self, model: Path, corpus: Path, tmp_path: Path, nearer: Nearer) -> None:
        out = tmp_path / "index"
        built = nearer("search", "build", model, corpus, "--out", out, "--device", "cpu")
        assert "vectors + 0.3 × BM25 + 0.5 × " in built.err
        found = nearer("search", "query", out, "rain", "-k", 3, "--json", "--device", "cpu")
        hits = SearchIndex.open(out, device="cpu").search("rain", 3)
        assert [hit["row"] for hit in json.loads(found.out)["hits"]] == [hit.row for hit in hits]
        asked = ("--lexical-weight", 0, "--rerank", "none")
        plain = nearer("search", "query", out, "rain", "-k", 3, "--json", "--device", "cpu", *asked)
        [first, *_] = json.loads(plain.out)["hits"]
        assert first["score"] == first["cosine"]
        assert "answers" in nearer("search", "info", out).out

    def test_options_say_otherwise(self, model: Path, corpus: Path, tmp_path: Path) -> None:
        index = SearchIndex.build(model, corpus, tmp_path / "index", lexical_weight=0, device="cpu")
        assert index.manifest.lexical is None
        assert index.manifest.setup.reranker is not None

    def test_sentences_are_ranked_by_it(self, encoder: Encoder, judge: CrossEncoder) -> None:
        texts = [*sentences(9, 4), "rain"]
        expected = by_hand(encoder, texts, "rain comes", 0.7, judge)
        setup = SearchSetup(lexical_weight=0.7, reranker=RerankerSetup(model="a"))
        ranked = rank_texts(encoder, "rain comes", [*texts, "rain"], setup, reranker=judge)
        for one in ranked:
            assert one.score == pytest.approx(expected[one.sentence], abs=1e-3)
        assert [one.number for one in ranked if one.sentence == "rain"] == [9, 10]
        assert rank_texts(encoder, "rain comes", [*texts, "rain"], setup, reranker=judge, top=2) == ranked[:2]
        assert rank_texts(encoder, "rain", [], setup, reranker=judge) == []
        with pytest.raises(SettingError, match="give it loaded"):
            rank_texts(encoder, "rain", texts, setup)


class TestCommands:
    def test_rank(self, encoder: Encoder, judge: CrossEncoder, corpus: Path, tmp_path: Path, nearer: Nearer) -> None:
        encoder.save(tmp_path / "model")
        texts = corpus.read_text().splitlines()
        asked = ("rank", tmp_path / "model", "rain", corpus, "--device", "cpu", "--top", 5)
        plain = nearer(*asked).out.splitlines()
        assert float(plain[0].split("\t")[0]) == pytest.approx(
            max(encoder.similarity("rain", t) for t in texts), abs=1e-4
        )
        fused = nearer(*asked, "--rerank", judge.name, "--rerank-weight", 2, "--lexical-weight", 0.5).out.splitlines()
        setup = SearchSetup(lexical_weight=0.5, reranker=RerankerSetup(model="a", weight=2))
        expected = rank_texts(encoder, "rain", texts, setup, reranker=judge, top=5)
        assert [line.split("\t")[1:] for line in fused] == [[str(one.number + 1), one.sentence] for one in expected]
        assert "there is no reranker; name one (--rerank)" in nearer(*asked, "--rerank-weight", 2).error

    def test_a_set_up_is_ranked_by(self, encoder: Encoder, corpus: Path, tmp_path: Path, nearer: Nearer) -> None:
        encoder.save(tmp_path / "model")
        write_setup(tmp_path / "model", SearchSetup(lexical_weight=0.5))
        [line] = nearer("rank", tmp_path / "model", "rain", corpus, "--device", "cpu", "--top", 1).out.splitlines()
        [best] = rank_texts(encoder, "rain", corpus.read_text().splitlines(), SearchSetup(lexical_weight=0.5), top=1)
        assert line == f"{best.score:.4f}\t{best.number + 1}\t{best.sentence}"

    def test_weights_and_cross_encoder(
        self, hybrid: SearchIndex, encoder: Encoder, judge: CrossEncoder, tmp_path: Path, nearer: Nearer
    ) -> None:
        encoder.save(tmp_path / "model")
        asked = ("--lexical-weight", 2, "--rerank", judge.name, "--rerank-weight", 3, "--candidates", 25, "--json")
        found = nearer(
            "search", "query", hybrid.folder, "rain", "--model", tmp_path / "model", "--device", "cpu", *asked
        )
        hits = hybrid.search("rain", lexical_weight=2, reranker=judge, rerank_weight=3, candidates=25)
        assert [hit["row"] for hit in json.loads(found.out)["hits"]] == [hit.row for hit in hits]
        told = nearer("search", "query", hybrid.folder, "rain", "--rerank", tmp_path, "--model", tmp_path / "model")
        assert "is not a model folder" in told.error
