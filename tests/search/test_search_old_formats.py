"""Indexes of older formats: they open, grow, and get checksums."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from document_records import corpus_of
from search_text import QUERIES

from faulty_disk import flip
from nearer.encoder import Encoder
from nearer.search import SearchIndex, building
from nearer.search.manifest import FORMAT
from nearer.search.verify import find_damage


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
