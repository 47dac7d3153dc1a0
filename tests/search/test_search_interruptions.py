"""What was interrupted goes on where it was, never with what belongs to something else, and nothing is added twice."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from search_text import QUERIES, sentences, write_lines

from nearer.encoder import Encoder
from nearer.errors import InputError, ModelWarning
from nearer.search import SearchIndex, building


def test_an_interrupted_build(encoder: Encoder, corpus: Path, tmp_path: Path, monkeypatch) -> None:
    whole = SearchIndex.build(encoder, corpus, tmp_path / "whole")
    append, calls = building.RowWriter.append, []

    def interrupted(self, rows):
        calls.append(len(rows.texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return append(self, rows)

    monkeypatch.setattr(building.RowWriter, "append", interrupted)
    with pytest.raises(KeyboardInterrupt, match="32 sentences are encoded; the same command goes on there"):
        SearchIndex.build(encoder, corpus, tmp_path / "index")
    with pytest.raises(InputError, match="its build is not finished"):
        SearchIndex.open(tmp_path / "index")
    assert not (tmp_path / "index").exists()
    with pytest.raises(InputError, match="holds 32 sentences of an unfinished one, from other text"):
        SearchIndex.build(encoder, write_lines(tmp_path / "other.txt", ["rain"]), tmp_path / "index")
    calls[:] = [0, 0, 0]
    index = SearchIndex.build(encoder, corpus, tmp_path / "index")
    assert calls[3:] == [16, 12]  # the first 32 are not encoded again
    assert list(index.texts) == list(whole.texts)
    assert index.search(QUERIES) == whole.search(QUERIES)
    assert not (tmp_path / "index.partial").exists()


def test_a_build_interrupted_at_its_end(encoder: Encoder, corpus: Path, tmp_path: Path, monkeypatch) -> None:
    append, put_in_place, calls = building.RowWriter.append, building.put_in_place, []

    def counted(self, rows):
        calls.append(len(rows.texts))
        return append(self, rows)

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(building.RowWriter, "append", counted)
    monkeypatch.setattr(building, "put_in_place", stop)
    with pytest.raises(KeyboardInterrupt, match="60 sentences are encoded; the same command goes on there"):
        SearchIndex.build(encoder, corpus, tmp_path / "index")
    monkeypatch.setattr(building, "put_in_place", put_in_place)
    index = SearchIndex.build(encoder, corpus, tmp_path / "index")
    assert sum(calls) == len(index) == 60  # each was encoded once
    assert index.manifest.sources[0].reading["kept"] == 60
    assert not (index.folder / "pending.json").exists()


def test_a_text_that_changes_meanwhile(encoder: Encoder, corpus: Path, tmp_path: Path, monkeypatch) -> None:
    append = building.RowWriter.append

    def meddled(self, *arguments):
        with open(corpus, "a") as file:
            file.write("rain\n")
        return append(self, *arguments)

    monkeypatch.setattr(building.RowWriter, "append", meddled)
    with pytest.raises(InputError, match=r"corpus.txt: changed while it was read"):
        SearchIndex.build(encoder, corpus, tmp_path / "index")
    assert not (tmp_path / "index").exists()
    monkeypatch.setattr(building.RowWriter, "append", append)
    assert len(SearchIndex.build(encoder, corpus, tmp_path / "index")) > 60


def test_two_that_were_left_one_upon_the_other(
    index: SearchIndex, encoder: Encoder, more: Path, tmp_path: Path, monkeypatch
) -> None:
    append, write_json = building.RowWriter.append, building.write_sealed_json
    other = write_lines(tmp_path / "other.txt", sentences(40, 7))

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    def stop_at_the_second(self, *arguments):
        if self.extent.rows > 60:
            raise KeyboardInterrupt
        return append(self, *arguments)

    monkeypatch.setattr(building.RowWriter, "append", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt, match="16 sentences are encoded"):
        index.add(more)
    with pytest.raises(InputError, match="holds 16 sentences of an unfinished one"):
        index.add(other)
    monkeypatch.setattr(building, "write_sealed_json", stop)  # its rows are there, and nothing says so
    with pytest.raises(KeyboardInterrupt, match="nothing was changed"):
        index.add(other, force=True)
    monkeypatch.setattr(building.RowWriter, "append", append)
    monkeypatch.setattr(building, "write_sealed_json", write_json)
    assert len(SearchIndex.open(index.folder)) == 60
    index.add(more)
    assert list(index.texts[60:]) == more.read_text().splitlines()
    np.testing.assert_allclose(index.vectors, encoder.encode(list(index.texts), normalize=True), atol=1e-5)


class TestRepeating:
    def test_an_addition_that_was_killed_when_it_counted_already(
        self, index: SearchIndex, encoder: Encoder, more: Path, monkeypatch
    ) -> None:
        def stop(*arguments: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(building, "forget_older", stop)  # what comes after the manifest
        with pytest.raises(KeyboardInterrupt):
            index.add(more)
        monkeypatch.undo()
        assert (index.folder / "pending.json").exists()
        again = SearchIndex.open(index.folder, model=encoder)
        with pytest.raises(InputError, match=r"more.txt: is in .*index already, all of it \(rows 60 to 99\)"):
            again.add(more)
        assert not (index.folder / "pending.json").exists()
        assert list(SearchIndex.open(index.folder).texts)[60:] == more.read_text().splitlines()
        again.add(more, again=True)
        assert len(again) == 140

    def test_what_it_was_built_of(self, index: SearchIndex, corpus: Path, tmp_path: Path, nearer) -> None:
        copy = write_lines(tmp_path / "copy.txt", corpus.read_text().splitlines())
        for text in (corpus, copy):
            told = nearer("search", "add", index.folder, text).error
            assert told.startswith(
                f"{text}: is in {index.folder} already, all of it (rows 0 to 59); nothing was added."
            )
            assert told.endswith("ask for it (--again).")
        assert nearer("search", "add", index.folder, corpus, "--again").code == 0
        assert len(SearchIndex.open(index.folder)) == 120

    def test_by_standard_input(self, index: SearchIndex, more: Path, monkeypatch) -> None:
        def given() -> None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(more.read_bytes())))

        given()
        index.add("-")
        before = (index.folder / "manifest.json").read_bytes()
        given()
        with pytest.raises(InputError, match=r"-: is in .*index already, all of it"):
            index.add("-")
        assert (index.folder / "manifest.json").read_bytes() == before
        assert not (index.folder / "pending.json").exists()
        assert len(SearchIndex.open(index.folder)) == 100
        given()
        index.add("-", again=True)
        assert len(index) == 140

    def test_documents_with_ids_replace_themselves(self, encoder: Encoder, tmp_path: Path) -> None:
        records = [{"_id": str(n), "text": text} for n, text in enumerate(sentences(20, 5))]
        index = SearchIndex.build(encoder, records, tmp_path / "index")
        with pytest.warns(ModelWarning, match="is in .*index already; its documents replace themselves"):
            index.add(records)
        assert (len(index), index.manifest.sources[-1].replaced) == (20, 20)
        mixed = [{"_id": "a", "text": "rain"}, {"text": "lunch"}]
        index.add(mixed)
        with pytest.raises(InputError, match="already"):  # what has no id would be there twice
            index.add(mixed)

    def test_what_was_removed_since_may_come_again(self, encoder: Encoder, tmp_path: Path) -> None:
        records = [{"_id": "a", "text": "rain"}, {"text": "lunch"}]
        index = SearchIndex.build(encoder, records, tmp_path / "index")
        index.remove(["a"])
        index.add(records)
        assert sorted(hit.text for hit in index.search("rain")) == ["lunch", "lunch", "rain"]


class TestNothingToGoOnWith:
    @pytest.fixture
    def unusable(self, tmp_path: Path) -> Path:
        """Most of it cannot be read, and some can."""
        return write_lines(tmp_path / "broken.jsonl", ['{"text": "rain"}', "{", "{", '{"text": "the dog"}', "{"] * 10)

    def test_a_build_of_an_unusable_file(self, encoder: Encoder, unusable: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="30 of 50 lines could not be used"):
            SearchIndex.build(encoder, unusable, tmp_path / "index")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.jsonl"]

    def test_an_addition_of_it(self, index: SearchIndex, unusable: Path, more: Path) -> None:
        with pytest.raises(InputError, match="30 of 50 lines could not be used"):
            index.add(unusable)
        index.add(more)  # nothing of another text is in its way
        assert len(index) == 100

    def test_a_replacement_of_what_somebody_adds_to(self, index: SearchIndex, encoder: Encoder, more: Path) -> None:
        with FileLock(index.folder / "lock"), pytest.raises(InputError, match="index: another process is writing it"):
            SearchIndex.build(encoder, more, index.folder, overwrite=True)
        assert not index.folder.with_name("index.partial").exists()
        assert len(SearchIndex.open(index.folder)) == 60
