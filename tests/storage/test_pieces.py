"""Checksums of files that grow: every piece is what was written, and what was not finished is in nobody's way."""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faulty_disk import flip
from nearer.errors import DamagedError
from nearer.storage import pieces
from nearer.storage.pieces import PIECES, Pieces, PieceWriter, piece_ends

FILES = ("long.bin", "short.bin")
# pieces, each of some rows: what every row has in both files
PARTS = st.lists(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=3)), min_size=1, max_size=4), max_size=5)
Part = list[tuple[bytes, bytes]]


def write(folder: Path, parts: list[Part], rows: int = 0) -> int:
    """Behind the first `rows` rows; returns how many there are then."""
    writer = PieceWriter(folder, FILES, "make it anew", rows=rows)
    for name in FILES:
        with open(folder / name, "ab") as file:
            file.truncate(Pieces(folder, FILES, "", rows=rows).bytes(name))
    for part in parts:
        contents = [b"".join(row[number] for row in part) for number in range(2)]
        for name, content in zip(FILES, contents, strict=True):
            with open(folder / name, "ab") as file:
                file.write(content)
        writer.append([(len(part), contents)])
    writer.close()
    return writer.rows


def content(folder: Path, name: str) -> np.ndarray:
    return np.fromfile(folder / name, dtype=np.uint8)


def damage(folder: Path, rows: int | None = None) -> list[str]:
    found = Pieces(folder, FILES, "make it anew", rows=rows)
    return found.damage({name: content(folder, name) for name in FILES})


@settings(max_examples=30)
@given(kept=PARTS, left=PARTS, after=PARTS)
def test_what_was_written_is_good_whatever_was_begun_and_left(
    kept: list[Part], left: list[Part], after: list[Part]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write(folder, kept)
        write(folder, left, rows)
        found = Pieces(folder, FILES, "", rows=rows)
        assert (found.rows, len(found)) == (sum(map(len, kept)), len(kept))
        assert damage(folder, rows) == []
        total = write(folder, after, rows)
        found = Pieces(folder, FILES, "")
        assert (found.rows, len(found)) == (total, len(kept) + len(after))
        assert damage(folder) == []
        for number, name in enumerate(FILES):
            assert found.bytes(name) == sum(len(row[number]) for part in kept + after for row in part)
            for row in range(total):
                found.check_row(name, row, content(folder, name))


@settings(max_examples=40)
@given(parts=PARTS.filter(lambda parts: any(row[0] for part in parts for row in part)), data=st.data())
def test_any_flipped_bit_is_found_in_its_piece_and_nowhere_else(parts: list[Part], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        total = write(folder, parts)
        raw = (folder / FILES[0]).read_bytes()
        bit = data.draw(st.integers(0, 8 * len(raw) - 1))
        flip(folder / FILES[0], bit)
        ends = np.cumsum([sum(len(row[0]) for row in part) for part in parts])
        place = int(np.searchsorted(ends, bit // 8, "right"))
        first = sum(len(part) for part in parts[:place])
        rows = range(first, first + len(parts[place]))
        found = Pieces(folder, FILES, "make it anew")
        for row in range(total):
            for both in range(2):  # the second time it is known
                found.check_row(FILES[1], row, content(folder, FILES[1]))
                if row not in rows or both:
                    continue
                with pytest.raises(DamagedError, match=f"at rows {rows[0]} to {rows[-1]} .its checksum differs.; make"):
                    found.check_row(FILES[0], row, content(folder, FILES[0]))
        [line] = damage(folder)
        assert line.startswith(f"{folder / FILES[0]}: is damaged at rows {rows[0]} to {rows[-1]} ")
        others = np.array([row for row in range(total) if row not in rows], dtype=np.int64)
        found.check_rows(FILES[0], others, content(folder, FILES[0]))
        with pytest.raises(DamagedError):
            found.check_all(FILES[0], content(folder, FILES[0]))


ROWS: list[Part] = [[(b"abc", b"1"), (b"de", b"2")], [(b"f", b"3")], [(b"ghij", b"4")], [(b"k", b"5")]]


def test_damaged_pieces_that_follow_one_another_are_one_line(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    for byte in (0, 5, 10):
        flip(tmp_path / FILES[0], 8 * byte)
    flip(tmp_path / FILES[1], 0)
    assert [line.partition(": ")[2][:25] for line in damage(tmp_path)] == [
        "is damaged at rows 0 to 2",
        "is damaged at rows 4 to 4",
        "is damaged at rows 0 to 1",
    ]


def test_a_file_that_is_too_short(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    os.truncate(tmp_path / FILES[0], 10)
    assert [line.partition(" (")[0] for line in damage(tmp_path)] == [
        f"{tmp_path / FILES[0]}: is damaged at rows 4 to 4"
    ]


@pytest.mark.parametrize("bit", range(0, 8 * 2 * 48, 29))
def test_records_that_are_damaged_themselves(tmp_path: Path, bit: int) -> None:
    write(tmp_path, ROWS)
    assert (tmp_path / PIECES).stat().st_size == 4 * 48
    flip(tmp_path / PIECES, bit)
    with pytest.raises(DamagedError, match=rf"pieces.bin: is damaged at piece {bit // (8 * 48) + 1}; make it anew"):
        Pieces(tmp_path, FILES, "make it anew", rows=5)
    # those of the rows before are good
    found = Pieces(tmp_path, FILES, "make it anew", rows=2) if bit >= 8 * 48 else None
    assert found is None or found.rows == 2


@pytest.mark.parametrize("behind", [b"\0" * 100, b"\0" * 60 + b"\1" * 36, b"\xff" * 48, b"\1" * 7])
def test_what_lies_half_written_behind_the_rows_is_not_looked_at(tmp_path: Path, behind: bytes) -> None:
    rows = write(tmp_path, ROWS)
    with open(tmp_path / PIECES, "ab") as file:
        file.write(behind)
    assert damage(tmp_path, rows) == []
    assert write(tmp_path, ROWS, rows) == 2 * rows
    assert damage(tmp_path) == []


def test_zeros_at_the_end_were_not_finished(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    os.truncate(tmp_path / PIECES, 3 * 48)
    os.truncate(tmp_path / PIECES, 4 * 48)
    found = Pieces(tmp_path, FILES, "make it anew", rows=5)
    assert found.rows == 4
    with pytest.raises(DamagedError, match=r"pieces.bin: ends at row 4, before the rows do; make it anew"):
        found.check_row(FILES[0], 4, content(tmp_path, FILES[0]))


@given(sizes=st.lists(st.integers(0, 5000), max_size=200), row_bytes=st.integers(1, 3000))
def test_pieces_are_as_long_as_they_should_be(sizes: list[int], row_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", 10_000)
        ends = piece_ends(row_bytes, np.cumsum(np.array(sizes, dtype=np.int64)))
    assert ends == sorted(set(ends))
    assert ends[-1:] == ([len(sizes)] if sizes else [])
    for start, end in pairwise([0, *ends]):
        assert (end - start) * row_bytes <= 10_000 or end - start == 1
        assert sum(sizes[start:end]) <= 10_000 + 5000
