"""Documents in an index: ids, titles, removing and replacing, passages, snippets, and how much of a text is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_text import QUERIES, sentences, write_lines

from faulty_disk import flip
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.search import SearchIndex, building, read_documents
from nearer.search.documents import Document, Passages, cut_into_passages
from nearer.search.manifest import FORMAT
from nearer.search.snapshot import cut_snippet
from nearer.search.verify import find_damage
from nearer.text import Fault
from nearer.text.tokenise import tokenise


def corpus_of(count: int, seed: int = 5, start: int = 0) -> list[dict[str, str]]:
    texts = sentences(2 * count, seed)
    return [{"_id": f"d{start + n}", "title": texts[2 * n], "text": texts[2 * n + 1]} for n in range(count)]


def write_json_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    return write_lines(path, [json.dumps(record) for record in records])


class TestReading:
    def test_beir_as_it_is(self, tmp_path: Path) -> None:
        records = [
            {"_id": "a", "title": "Birds", "text": "They fly.", "metadata": {}},
            {"_id": 7, "title": "", "text": "No title."},
            {"_id": "c", "title": "Wings", "text": "wings of birds"},
            {"title": "only a title", "_id": "d", "text": ""},
        ]
        reading = read_documents(write_json_lines(tmp_path / "corpus.jsonl", records))
        expected = [Document("Birds They fly.", "a"), Document("No title.", "7"), Document("wings of birds", "c")]
        assert list(reading) == expected
        assert reading.report.tallies[Fault.EMPTY].examples == [(4, "")]
        assert list(read_documents(records)) == expected

    def test_plain_lines_and_lists_are_documents_without_an_id(self, tmp_path: Path) -> None:
        path = write_lines(tmp_path / "x.txt", ["one\ttwo", "three"])
        assert list(read_documents(path)) == [Document("one\ttwo"), Document("three")]
        assert list(read_documents(["one", "three"])) == [Document("one"), Document("three")]

    def test_named_columns_and_ids(self, tmp_path: Path) -> None:
        path = write_lines(tmp_path / "x.csv", ["Key,Head,Body,text", "k,one,two,three", "l,,four,five"])
        read = list(read_documents(path, columns=["Head", "Body"], id_column="Key"))
        assert read == [Document("one two", "k"), Document("four", "l")]
        assert list(read_documents(path)) == [Document("three"), Document("five")]
        with pytest.raises(InputError, match="found 'Key', 'Head', 'Body', 'text'"):
            list(read_documents(path, id_column="none"))
        numbered = write_lines(tmp_path / "y.tsv", ["k\tone\ttwo"])
        assert list(read_documents(numbered, columns=["1", "2"], id_column="0")) == [Document("one two", "k")]

    def test_two_columns_without_a_header_are_not_guessed_at(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="cannot tell which columns make a document"):
            list(read_documents(write_lines(tmp_path / "y.tsv", ["k\tone"])))
        reading = read_documents([("one", "two"), ("three",)])
        assert list(reading) == [Document("three")]
        assert reading.report.count(Fault.WRONG_COLUMNS) == 1

    def test_what_is_no_id(self) -> None:
        reading = read_documents(
            [{"_id": [1], "text": "one"}, {"_id": None, "text": "two"}, {"id": " ", "text": "three"}]
        )
        assert list(reading) == [Document("two"), Document("three")]
        assert reading.report.count(Fault.WRONG_FIELDS) == 1

    def test_other_columns_are_another_reading(self) -> None:
        records = [{"a": "one", "b": "two", "text": "three"}]
        prints = {read_documents(records, columns=[name]).fingerprint() for name in ("a", "b", "text")}
        assert len(prints) == 3


class TestInPython:
    @pytest.mark.parametrize("kind", ["list", "iterator", "pandas", "data set", "file"])
    def test_any_source(self, encoder: Encoder, tmp_path: Path, kind: str) -> None:
        records = corpus_of(20)
        source: Any = records
        if kind == "iterator":
            source = iter(records)
        elif kind == "pandas":
            source = pytest.importorskip("pandas").DataFrame(records)
        elif kind == "data set":
            source = pytest.importorskip("datasets").Dataset.from_list(records)
        elif kind == "file":
            source = write_json_lines(tmp_path / "corpus.jsonl", records)
        index = SearchIndex.build(encoder, source, tmp_path / "index")
        wanted = records[3]
        [hit] = index.search(f"{wanted['title']} {wanted['text']}", k=1)
        assert (hit.id, hit.document, hit.passage, hit.passages) == ("d3", 3, 1, 1)
        assert len(index) == 20

    def test_columns_of_a_reading_are_its_own(self, encoder: Encoder, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="are for a source; a Reading has its own"):
            SearchIndex.build(encoder, read_documents(["one"]), tmp_path / "index", columns=["text"])


class TestRemovingAndReplacing:
    @pytest.fixture
    def documents(self, encoder: Encoder, tmp_path: Path) -> SearchIndex:
        return SearchIndex.build(encoder, corpus_of(40), tmp_path / "documents")

    @pytest.mark.parametrize("kind", ["exact", "ivf", "hnsw"])
    def test_what_was_removed_is_found_no_more(self, encoder: Encoder, tmp_path: Path, kind: Any) -> None:
        records = corpus_of(40)
        index = SearchIndex.build(encoder, records, tmp_path / "index", kind=kind, recall=1.0)
        gone = [f"d{n}" for n in range(0, 40, 2)]
        assert index.remove(gone) == 20
        rest = SearchIndex.build(encoder, [r for r in records if r["_id"] not in gone], tmp_path / "rest")
        for opened in (index, SearchIndex.open(index.folder, model=encoder)):
            assert len(opened) == len(opened.rows) == 20
            for found, expected in zip(opened.search(QUERIES, 7), rest.search(QUERIES, 7), strict=True):
                assert [hit.cosine for hit in found] == pytest.approx([hit.cosine for hit in expected], abs=1e-5)
            assert {hit.id for hit in opened.search("rain", 100)} == {f"d{n}" for n in range(1, 40, 2)}

    def test_an_unknown_id_removes_nothing(self, documents: SearchIndex) -> None:
        with pytest.raises(InputError, match="has no document 'x'; nothing was removed"):
            documents.remove(["d1", "x"])
        assert len(documents) == 40
        with pytest.raises(InputError, match="ids: is one string"):
            documents.remove("d1")
        with pytest.raises(InputError, match="nothing would be left"):
            documents.remove([f"d{n}" for n in range(40)])
        documents.remove(["d1"])
        with pytest.raises(InputError, match="has no document 'd1'"):
            documents.remove(["d1"])

    def test_an_index_without_ids(self, index: SearchIndex) -> None:
        with pytest.raises(InputError, match="its documents have no ids"):
            index.remove(["1"])

    def test_a_document_replaces_the_one_of_its_id(self, documents: SearchIndex, encoder: Encoder) -> None:
        documents.add([{"_id": "d3", "text": "rain rain rain"}, {"_id": "new", "text": "lunch far away"}])
        assert documents.manifest.sources[-1].replaced == 1
        assert len(documents) == 41
        by_id = {hit.id: hit.text for hit in documents.search("rain", 100)}
        assert (by_id["d3"], by_id["new"], len(by_id)) == ("rain rain rain", "lunch far away", 41)
        documents.add([{"_id": "d3", "text": "the dog"}])
        documents.remove(["new"])
        again = {hit.id: hit.text for hit in SearchIndex.open(documents.folder, model=encoder).search("rain", 100)}
        assert (again["d3"], len(again)) == ("the dog", 40)
        assert [path.name for path in documents.folder.glob("removed-*.bin")] == [documents.manifest.removed.file]

    def test_of_two_of_one_id_in_one_text_the_last_counts(self, encoder: Encoder, tmp_path: Path) -> None:
        records = [{"_id": "a", "text": "rain"}, {"_id": "b", "text": "lunch"}, {"_id": "a", "text": "the dog"}]
        index = SearchIndex.build(encoder, records, tmp_path / "index")
        assert {hit.id: hit.text for hit in index.search("rain")} == {"a": "the dog", "b": "lunch"}
        assert index.manifest.sources[0].replaced == 1

    def test_a_killed_removal_leaves_the_index_as_it_was(self, documents: SearchIndex, monkeypatch) -> None:
        from nearer.search import removal

        def stop(*arguments: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(removal, "write_sealed_json", stop)
        with pytest.raises(KeyboardInterrupt):
            documents.remove(["d1"])
        assert len(SearchIndex.open(documents.folder)) == 40
        monkeypatch.undo()
        documents.remove(["d2"])
        assert len(SearchIndex.open(documents.folder)) == 39

    def test_a_damaged_list_of_the_removed(self, documents: SearchIndex) -> None:
        documents.remove(["d1", "d2"])
        file = documents.folder / documents.manifest.removed.file
        np.array([2, 1], dtype=np.int64).tofile(file)
        with pytest.raises(
            InputError, match=rf"{file.name}: is not what was written \(its checksum differs\); build the"
        ):
            SearchIndex.open(documents.folder)

    def test_reranking_and_the_map_leave_them_out(self, documents: SearchIndex) -> None:
        from nearer.serve.index_overview import sample_index

        documents.remove([f"d{n}" for n in range(30)])
        hits = documents.search("rain", 5, rerank=10)
        assert {hit.id for hit in hits} <= {f"d{n}" for n in range(30, 40)}
        assert set(sample_index(documents).rows.tolist()) <= set(range(30, 40))


class TestFormat1:
    @pytest.fixture
    def old(self, index: SearchIndex) -> Path:
        """As the first version of the format had it."""
        for name in ("ids.bin", "id_ends.bin", "documents.bin", "pieces.bin"):
            (index.folder / name).unlink()
        manifest = json.loads((index.folder / "manifest.json").read_text())
        for name in ("id_bytes", "documents", "passages", "removed", "checksum"):
            del manifest[name]
        for source in manifest["sources"]:
            del source["replaced"]
        (index.folder / "manifest.json").write_text(json.dumps(manifest | {"format": 1}))
        return index.folder

    def test_it_still_opens(self, old: Path, encoder: Encoder, index: SearchIndex) -> None:
        opened = SearchIndex.open(old, model=encoder)
        assert opened.search(QUERIES) == index.search(QUERIES)
        assert len(opened) == 60

    def test_it_can_be_added_to(self, old: Path, encoder: Encoder) -> None:
        opened = SearchIndex.open(old, model=encoder)
        opened.add(corpus_of(20))
        assert (opened.manifest.format, len(opened), opened.manifest.documents) == (FORMAT, 80, 80)
        found = {hit.row: hit for hit in opened.search("rain", 100)}
        assert (found[59].id, found[59].document) == (None, 59)
        assert (found[60].id, found[60].document) == ("d0", 60)
        opened.remove(["d0"])
        assert len(SearchIndex.open(old)) == 79

    @pytest.mark.parametrize("format", [1, 2])
    def test_its_rows_get_checksums_when_it_is_added_to(self, old: Path, encoder: Encoder, format: int) -> None:
        if format == 2:
            SearchIndex.open(old, model=encoder).add(["one", "two"])
            manifest = json.loads((old / "manifest.json").read_text())
            del manifest["checksum"]
            (old / "manifest.json").write_text(json.dumps(manifest | {"format": 2}))
            (old / "pieces.bin").unlink()
        opened = SearchIndex.open(old, model=encoder)
        assert opened.manifest.format == format
        flip(old / "lines.bin", 3)
        assert find_damage(old) == []  # nobody can tell
        flip(old / "lines.bin", 3)
        opened.add(corpus_of(20))
        assert (opened.manifest.format, find_damage(old)) == (FORMAT, [])
        for name in ("lines.bin", "texts.bin", "vectors.bin", "documents.bin"):
            flip(old / name, 3)
            [line] = find_damage(old)
            assert line.startswith(f"{old / name}: is damaged at rows 0 to ")
            flip(old / name, 3)

    def test_an_interrupted_addition_to_it_goes_on(self, old: Path, encoder: Encoder, monkeypatch) -> None:
        append, calls = building.RowWriter.append, []

        def interrupted(self, rows):
            calls.append(len(rows.texts))
            if len(calls) == 2:
                raise KeyboardInterrupt
            return append(self, rows)

        monkeypatch.setattr(building.RowWriter, "append", interrupted)
        records, opened = corpus_of(40), SearchIndex.open(old, model=encoder)
        with pytest.raises(KeyboardInterrupt, match="16 sentences are encoded"):
            opened.add(records)
        assert len(SearchIndex.open(old)) == 60
        SearchIndex.open(old, model=encoder).add(records)
        assert calls == [16, 16, 16, 8]
        assert len(SearchIndex.open(old)) == 100


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


class TestCommands:
    def test_the_whole_way(self, nearer: Callable[..., Any], encoder: Encoder, tmp_path: Path) -> None:
        encoder.with_max_length(8).save(tmp_path / "model")
        corpus = write_json_lines(tmp_path / "corpus.jsonl", corpus_of(20))
        place = tmp_path / "index"
        told = nearer("search", "build", tmp_path / "model", corpus, "--out", place, "--device", "cpu")
        assert told.code == 0
        assert "columns used" not in told.err or "title" in told.err
        assert "tokens of each text are read (--max-length)" in told.err
        assert f"{place}: 20 documents; exact" in told.err
        more = write_json_lines(tmp_path / "more.jsonl", [{"_id": "d3", "text": "rain " * 200}])
        told = nearer("search", "add", place, more)
        assert "1 document was replaced by others of the same id" in told.err
        assert "note: 1 of 1 text was cut at" in told.err
        told = nearer("search", "query", place, "rain rain", "-k", 1)
        assert told.out.splitlines()[1].split() == ["score", "id", "line", "file", "text"]
        assert " d3 " in told.out
        assert "…" in told.out
        assert "…" not in nearer("search", "query", place, "rain rain", "-k", 1, "--whole").out
        assert nearer("search", "remove", place, "--id", "none").error.startswith(f"{place}: has no document 'none'")
        told = nearer("search", "remove", place, "--id", "d3", "--id", "d4")
        assert told.err.splitlines()[0] == "2 documents removed"
        ids = write_lines(tmp_path / "ids.txt", ["d5"])
        assert nearer("search", "remove", place, "--file", ids).code == 0
        assert nearer("search", "remove", place).error.startswith("give either ids (--id) or a --file")
        shown = nearer("search", "info", place).out
        assert "documents  17" in shown
        assert "removed    4 rows" in shown

    def test_passages(self, nearer: Callable[..., Any], encoder: Encoder, tmp_path: Path) -> None:
        encoder.save(tmp_path / "model")
        records = [{"_id": str(n), "text": " ".join(sentences(8, n))} for n in range(5)]
        corpus, place = write_json_lines(tmp_path / "corpus.jsonl", records), tmp_path / "index"
        told = nearer("search", "build", tmp_path / "model", corpus, "--out", place, "--passages", 16)
        assert " 5 documents in " in told.err
        told = nearer("search", "query", place, "rain", "-k", 5)
        assert told.out.splitlines()[1].split() == ["score", "id", "line", "passage", "text"]
        found = json.loads(nearer("search", "query", place, "rain", "-k", 9, "--json").out)["hits"]
        assert sorted(hit["id"] for hit in found) == list("01234")
        every = json.loads(nearer("search", "query", place, "rain", "-k", 9, "--json", "--all-passages").out)["hits"]
        assert len(every) == 9
