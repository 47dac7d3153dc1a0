"""Texts and their ends: any text comes back as it was, and damage is said."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.errors import InputError
from nearer.search.row_store import Extent, NewRows, RowWriter, StoredRows, file_sizes
from nearer.search.text_store import TextStore

TEXTS = st.lists(st.lists(st.text(max_size=20), max_size=5), max_size=5)


def new_rows(texts: list[str], number: int, extent: Extent) -> NewRows:
    places = np.arange(len(texts), dtype=np.int64)
    vectors = np.full((len(texts), 2), number, dtype=np.float32)
    return NewRows(texts, [f"id {place}" for place in places], places, places + extent.documents, vectors)


def write(folder: Path, windows: list[list[str]]) -> Extent:
    with RowWriter(folder, 2, Extent()) as writer:
        for number, window in enumerate(windows):
            writer.append(new_rows(window, number, writer.extent))
        return writer.extent


class TestStore:
    @settings(deadline=None, max_examples=40)
    @given(TEXTS)
    def test_any_text_comes_back(self, windows: list[list[str]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            extent = write(Path(folder), windows)
            store = TextStore(Path(folder), *extent[:2])
            given_texts = [text for window in windows for text in window]
            assert list(store) == given_texts
            assert [store[row] for row in range(-len(store), 0)] == given_texts
            assert store[1:-1:2] == given_texts[1:-1:2]
            assert extent[:2] == (len(given_texts), len("".join(given_texts).encode()))
            found = StoredRows(Path(folder), extent, 2)
            assert found.vectors[:, 1].tolist() == [n for n, window in enumerate(windows) for _ in window]
            assert found.lines.tolist() == [n for w in windows for n in range(len(w))]

    @settings(deadline=None, max_examples=20)
    @given(TEXTS, TEXTS, TEXTS)
    def test_what_was_begun_and_left_does_not_matter(
        self, kept: list[list[str]], left: list[list[str]], after: list[list[str]]
    ) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            extent = write(folder, kept)
            with RowWriter(folder, 2, extent) as writer:
                for window in left:
                    writer.append(new_rows(window, 0, writer.extent))
            texts = [text for window in kept for text in window]
            assert list(TextStore(folder, *extent[:2])) == texts  # longer files are no damage
            with RowWriter(folder, 2, extent) as writer:
                for window in after:
                    writer.append(new_rows(window, 0, writer.extent))
            assert list(TextStore(folder, *writer.extent[:2])) == texts + [text for window in after for text in window]
            sizes = file_sizes(writer.extent, 2)
            found = {path.name: path.stat().st_size for path in folder.iterdir()}
            pieces = found.pop("pieces.bin")
            assert found == sizes  # nothing lies behind it
            assert pieces == 128 * len(StoredRows(folder, writer.extent, 2).pieces)

    def test_beyond_the_end(self, tmp_path: Path) -> None:
        store = TextStore(tmp_path, *write(tmp_path, [["one", "two"]])[:2])
        for row in (2, -3):
            with pytest.raises(IndexError):
                store[row]


class TestDamage:
    def test_ends_that_jump(self, tmp_path: Path) -> None:
        extent = write(tmp_path, [["one", "two", "three"]])
        ends = np.fromfile(tmp_path / "ends.bin", dtype=np.int64)
        ends[1] = 99
        ends.tofile(tmp_path / "ends.bin")
        store = TextStore(tmp_path, *extent[:2])
        assert store[0] == "one"
        for row in (1, 2):
            with pytest.raises(InputError, match=rf"texts.bin: is damaged at text {row}; build the index anew"):
                store[row]

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        extent = write(tmp_path, [["one", "two"]])
        (tmp_path / "texts.bin").write_bytes(b"one\xff\xfe\xfd")
        with pytest.raises(InputError, match="damaged at text 1"):
            TextStore(tmp_path, *extent[:2])[1]

    def test_other_texts(self, tmp_path: Path) -> None:
        rows, *_ = write(tmp_path, [["one", "two"]])
        with pytest.raises(InputError, match=r"ends.bin: does not fit to texts.bin"):
            TextStore(tmp_path, rows, 5)

    def test_writing_where_rows_are_missing(self, tmp_path: Path) -> None:
        write(tmp_path, [["one"]])
        with (
            pytest.raises(InputError, match=r"texts.bin: has 3 bytes, 9 belong there"),
            RowWriter(tmp_path, 2, Extent(2, 9)),
        ):
            pass
