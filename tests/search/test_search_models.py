"""The model of an index and no other; the second look by rank vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from search_text import QUERIES, sentences, write_lines

from nearer.encoder import Encoder
from nearer.errors import ModelError, SettingError
from nearer.search import SearchIndex
from nearer.teachers import RankEncoder


class TestModel:
    def test_it_is_found_again(self, encoder: Encoder, index: SearchIndex) -> None:
        reopened = SearchIndex.open(index.folder)
        assert reopened.search(QUERIES, 5) == index.search(QUERIES, 5)
        assert reopened.model.encoder.settings == encoder.settings

    def test_another_model(self, index: SearchIndex, tiny_model, encoder: Encoder, more: Path) -> None:
        other = Encoder.load(tiny_model("distilbert"), pooling="mean", device="cpu")
        mine = index.manifest.model.fingerprint
        opened = SearchIndex.open(index.folder, model=other)
        for ask in (lambda: opened.search("rain"), lambda: opened.add(more)):
            with pytest.raises(ModelError, match=rf"has fingerprint \w{{32}}, the index was built with {mine}") as told:
                ask()
            assert other.name in str(told.value)
            assert encoder.name in str(told.value)
        assert len(opened.search(index.vectors[:1])[0]) == 10  # vectors need no model

    def test_a_moved_model(self, encoder: Encoder, corpus: Path, tmp_path: Path) -> None:
        encoder.save(tmp_path / "model")
        loaded = Encoder.load(tmp_path / "model", device="cpu")
        index = SearchIndex.build(loaded, corpus, tmp_path / "index")
        (tmp_path / "model").rename(tmp_path / "moved")
        with pytest.raises(ModelError, match=r"model: the index' model is not there any more; say where it is"):
            SearchIndex.open(tmp_path / "index").search("rain")
        moved = SearchIndex.open(tmp_path / "index", model=tmp_path / "moved")
        assert moved.search("rain") == index.search("rain")

    def test_prompts(self, encoder: Encoder, corpus: Path, tmp_path: Path) -> None:
        model = Encoder.load(encoder.name, pooling="mean", device="cpu")
        model.settings = replace(model.settings, prompts={"query": "the dog ", "text": "rain "})
        index = SearchIndex.build(model, corpus, tmp_path / "index", prompt="text", query_prompt="query")
        text = corpus.read_text().split("\n")[3]
        np.testing.assert_allclose(index.vectors[3], encoder.encode(f"rain {text}", normalize=True), atol=1e-6)
        asked = encoder.encode(["the dog fox"])
        assert [hit.row for hit in index.search("fox", 5)] == [hit.row for hit in index.search(asked, 5)[0]]
        with pytest.raises(SettingError, match="no prompt 'nope'"):
            SearchIndex.build(model, corpus, tmp_path / "other", query_prompt="nope")


class TestReranking:
    def test_by_a_rank_encoder_of_its_own(self, encoder: Encoder, corpus: Path, tmp_path: Path) -> None:
        ranks = RankEncoder.build(encoder, sentences(50, 5), inference_weight=0.4)
        index = SearchIndex.build(ranks, corpus, tmp_path / "index")
        cosines = index.search("a quick fox", 30)
        for weight, asked in ((0.4, None), (0.9, 0.9), (0.4, None)):
            ranks.inference_weight = weight
            wanted = {hit.text: ranks.similarity("a quick fox", hit.text) for hit in cosines}
            ranks.inference_weight = 0.4
            found = index.search("a quick fox", 8, rerank=30, inference_weight=asked)
            assert [hit.text for hit in found] == sorted([hit.text for hit in cosines], key=lambda t: -wanted[t])[:8]
            np.testing.assert_allclose([hit.score for hit in found], [wanted[hit.text] for hit in found], atol=1e-5)
            assert {(hit.row, hit.cosine) for hit in found} <= {(hit.row, hit.cosine) for hit in cosines}

    def test_by_the_sentences_of_the_index(self, index: SearchIndex, encoder: Encoder) -> None:
        ranks = RankEncoder(encoder, encoder.encode(list(dict.fromkeys(index.texts))), inference_weight=1)
        for hit in index.search("rain comes", 10, rerank=60):
            assert hit.score == pytest.approx(ranks.similarity("rain comes", hit.text), abs=1e-4)
        scores = [hit.score for hit in index.search("rain comes", 60, rerank=60)]
        assert scores == sorted(scores, reverse=True)

    def test_one_sentence_cannot_be_ranked(self, encoder: Encoder, tmp_path: Path) -> None:
        index = SearchIndex.build(encoder, write_lines(tmp_path / "one.txt", ["rain", "rain"]), tmp_path / "index")
        assert [hit.row for hit in index.search("rain")] == [0, 1]
        with pytest.raises(SettingError, match="at least 2 different sentences"):
            index.search("rain", 1, rerank=2)
