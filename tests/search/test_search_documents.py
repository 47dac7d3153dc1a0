"""Documents in an index: ids, titles, removing and replacing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from document_records import corpus_of, write_json_lines
from search_text import QUERIES, sentences, write_lines

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.search import SearchIndex, read_documents
from nearer.search.documents import Document
from nearer.text import Fault


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
