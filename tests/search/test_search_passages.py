"""Long documents in an index: passages, how much of a text is read, snippets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_text import sentences

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.search import SearchIndex, building
from nearer.search.documents import Passages, cut_into_passages
from nearer.search.snapshot import cut_snippet
from nearer.text.tokenise import tokenise


class TestPassages:
    @settings(deadline=None, max_examples=50)
    @given(
        words=st.lists(st.sampled_from(["rain", "a", "unheard-of", "fox.", "dog!", "x" * 60]), max_size=120),
        size=st.integers(8, 40),
        data=st.data(),
    )
    def test_they_cover_the_text_and_fit(
        self, encoder: Encoder, words: list[str], size: int, data: st.DataObject
    ) -> None:
        overlap = data.draw(st.integers(0, size // 2))
        text = " ".join(words)
        pieces = cut_into_passages(encoder.tokenizer, text, Passages(size, overlap))
        special = len(tokenise(encoder.tokenizer, [""], 16)[0])
        lengths = [len(ids) - special for ids in tokenise(encoder.tokenizer, pieces, 1000)]
        for piece, length in zip(pieces, lengths, strict=True):
            assert length <= size or len(piece.split()) == 1
        reached = 0
        for piece in pieces:  # in order, without a hole
            taken = piece.split()
            starts = [at for at in range(reached + 1) if words[at : at + len(taken)] == taken]
            assert starts
            reached = max(starts) + len(taken)
        assert reached == len(words)

    @pytest.fixture
    def long_documents(self) -> list[dict[str, str]]:
        filler = " ".join(sentences(12, 3))
        return [
            {"_id": "rain", "text": f"{filler} . rain comes rain comes rain comes . {filler}"},
            {"_id": "lunch", "text": f"{filler} . someone has lunch . someone has lunch . {filler}"},
            {"_id": "short", "text": "the lazy dog"},
        ]

    def test_one_hit_a_document_with_its_nearest_passage(
        self, encoder: Encoder, long_documents: list[dict[str, str]], tmp_path: Path
    ) -> None:
        index = SearchIndex.build(encoder, long_documents, tmp_path / "index", passages=12, overlap=4)
        assert index.manifest.passages == (12, 4)
        assert (len(index), index.manifest.documents) == (3, 3)
        assert len(index.rows) > 10
        hits = index.search("rain comes rain comes", 10)
        assert sorted(hit.id for hit in hits) == ["lunch", "rain", "short"]
        every = index.search("rain comes rain comes", 1000, all_passages=True)
        assert len(every) == len(index.rows)
        for hit in hits:  # the nearest of its document
            best = next(other for other in every if other.document == hit.document)
            assert (hit.row, hit.cosine) == (best.row, best.cosine)
            assert 1 <= hit.passage <= hit.passages
            assert hit.passages == sum(other.document == hit.document for other in every)
        assert index.remove(["rain"]) == 1
        assert {hit.id for hit in index.search("rain", 1000, all_passages=True)} == {"lunch", "short"}

    def test_added_documents_are_cut_alike_and_an_interrupted_build_goes_on(
        self, encoder: Encoder, tmp_path: Path, monkeypatch
    ) -> None:
        records = [{"_id": str(n), "text": " ".join(sentences(6, n))} for n in range(50)]
        whole = SearchIndex.build(encoder, records, tmp_path / "whole", passages=16)
        append, calls = building.RowWriter.append, []

        def interrupted(self, rows):
            calls.append(rows)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return append(self, rows)

        monkeypatch.setattr(building.RowWriter, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            SearchIndex.build(encoder, records, tmp_path / "index", passages=16)
        with pytest.raises(InputError, match="of an unfinished one, from other text"):
            SearchIndex.build(encoder, records, tmp_path / "index", passages=20)
        index = SearchIndex.build(encoder, records, tmp_path / "index", passages=16)
        assert list(index.texts) == list(whole.texts)
        assert [hit.id for hit in index.search("rain")] == [hit.id for hit in whole.search("rain")]
        before = len(index.rows)
        index.add([{"_id": "more", "text": records[0]["text"]}])
        [first, second] = index.search(records[0]["text"], 2)
        assert {first.id, second.id} == {"0", "more"}
        assert first.passages == second.passages == len(index.rows) - before

    def test_settings_that_make_no_sense(self, encoder: Encoder, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="overlap: is of passages"):
            SearchIndex.build(encoder, ["one"], tmp_path / "index", overlap=3)
        with pytest.raises(SettingError, match="passages: 500 tokens are not between 8 and 62"):
            SearchIndex.build(encoder, ["one"], tmp_path / "index", passages=500)
        with pytest.raises(SettingError, match="overlap: 9 is not between 0 and 8"):
            SearchIndex.build(encoder, ["one"], tmp_path / "index", passages=16, overlap=9)


class TestLength:
    @pytest.fixture
    def short_model(self, encoder: Encoder, tmp_path: Path) -> Path:
        """A trained model that was saved with a maximum length of 8; it can take 64."""
        encoder.with_max_length(8).save(tmp_path / "short")
        return tmp_path / "short"

    def test_it_is_taken_from_the_text(self, short_model: Path, tmp_path: Path) -> None:
        texts = ["rain " * 34] * 39 + ["rain " * 60]
        index = SearchIndex.build(short_model, texts, tmp_path / "index", device="cpu")
        assert index.manifest.model.options["max_length"] == 40  # 36 tokens; one text in forty has 62
        assert index.model.encoder.cut_texts.cut == 1
        loaded = Encoder.load(short_model, device="cpu")
        hits = SearchIndex.open(tmp_path / "index", model=loaded).search("rain")
        assert len(hits) == 10

    @pytest.mark.parametrize(("words", "length"), [(1, 32), (500, 64)])
    def test_it_is_never_short_nor_above_what_it_takes(
        self, short_model: Path, tmp_path: Path, words: int, length: int
    ) -> None:
        index = SearchIndex.build(short_model, ["rain " * words] * 3, tmp_path / "index", device="cpu")
        assert index.manifest.model.options["max_length"] == length

    def test_it_can_be_set(self, short_model: Path, encoder: Encoder, tmp_path: Path) -> None:
        index = SearchIndex.build(short_model, ["rain " * 30], tmp_path / "index", max_length=9, device="cpu")
        assert index.manifest.model.options["max_length"] == 9
        with pytest.raises(SettingError, match="max_length: is for models that are given by name"):
            SearchIndex.build(encoder, ["rain"], tmp_path / "other", max_length=9)


class TestSnippets:
    TEXT = "Birds sing in spring . " * 20 + "A wing in a slipstream lifts more . " + "Nothing else is known . " * 20

    def test_short_texts_are_whole(self) -> None:
        assert cut_snippet("a\n dog", "rain") == "a dog"

    def test_the_sentence_that_fits_is_shown(self) -> None:
        shown = cut_snippet(self.TEXT, "slipstream of wings")
        assert shown.startswith("… A wing in a slipstream lifts more .")
        assert shown.endswith(" …")
        assert len(shown) <= 204

    def test_without_a_shared_word_it_is_the_beginning(self) -> None:
        assert cut_snippet(self.TEXT, "quantum").startswith("Birds sing")

    @given(text=st.text(max_size=600), query=st.text(max_size=30), characters=st.integers(20, 300))
    def test_any_text(self, text: str, query: str, characters: int) -> None:
        shown = cut_snippet(text, query, characters)
        assert len(shown) <= characters + 4
        assert shown.removeprefix("… ").removesuffix(" …").strip() in " ".join(text.split())
