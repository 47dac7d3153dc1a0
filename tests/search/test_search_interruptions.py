"""What was interrupted goes on where it was, and never with what belongs to something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from search_text import QUERIES, sentences, write_lines

from nearer.encoder import Encoder
from nearer.errors import InputError
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
    append, write_json = building.RowWriter.append, building.write_json
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
    monkeypatch.setattr(building, "write_json", stop)  # its rows are there, and nothing says so
    with pytest.raises(KeyboardInterrupt, match="nothing was changed"):
        index.add(other, force=True)
    monkeypatch.setattr(building.RowWriter, "append", append)
    monkeypatch.setattr(building, "write_json", write_json)
    assert len(SearchIndex.open(index.folder)) == 60
    index.add(more)
    assert list(index.texts[60:]) == more.read_text().splitlines()
    np.testing.assert_allclose(index.vectors, encoder.encode(list(index.texts), normalize=True), atol=1e-5)
