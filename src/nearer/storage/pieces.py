"""Checksums of files that grow together, row by row: a search index, a store of vectors.

    pieces.bin   a record for each piece: the row at which it ends, then for each file the byte at which it ends there
                 and the XXH3 (64 bit) of its bytes, then the XXH3 of the record itself

Rows are added in pieces that are never changed again, so a piece can be checked when it is first read, and an addition
adds records without touching those that are there. Rows that have no record were not finished.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from nearer.errors import DamagedError
from nearer.storage.whole import sync_folder

PIECES = "pieces.bin"
# So much of the largest file is read when one of its rows is looked at for the first time
PIECE_BYTES = 2**16

Content = NDArray[Any] | memoryview | bytes | mmap.mmap


class Pieces:
    """The records of one folder, up to a row. files: their names, in the order in which the records have them.

    Any number of threads may check at once: a piece that two of them look at is checked twice.
    """

    def __init__(self, folder: Path, files: Sequence[str], back: str, *, rows: int | None = None) -> None:
        """rows: how many are there; records beyond belong to an addition. back: what to do where there is damage."""
        self.folder, self.files, self.back = folder, tuple(files), back
        self.record_type = np.dtype(
            [("row", "<i8"), *((f"{kind}{n}", t) for n in range(len(files)) for kind, t in _FIELDS), ("own", "<u8")]
        )
        records = self._read(rows)
        self._rows = _behind_zero(records["row"])
        self._ends = {file: _behind_zero(records[f"end{n}"]) for n, file in enumerate(files)}
        self._sums = {file: np.ascontiguousarray(records[f"sum{n}"]) for n, file in enumerate(files)}
        self._good = {file: np.zeros(len(records), dtype=bool) for file in files}

    @property
    def rows(self) -> int:
        """How many rows they cover."""
        return int(self._rows[-1])

    def bytes(self, file: str) -> int:
        """How long a file is up to the last row."""
        return int(self._ends[file][-1])

    def __len__(self) -> int:
        return len(self._rows) - 1

    def check_rows(self, file: str, rows: NDArray[np.int64], content: Content) -> None:
        """That what these rows have in a file is what was written. content: the file from its beginning on."""
        self._check(file, np.unique(np.searchsorted(self._rows, rows, "right") - 1), content)

    def check_row(self, file: str, row: int, content: Content) -> None:
        piece = int(self._rows.searchsorted(row, "right")) - 1
        if piece >= len(self) or not self._good[file][piece]:
            self._check(file, np.array([piece]), content)

    def check_all(self, file: str, content: Content) -> None:
        if not self._good[file].all():
            self._check(file, np.arange(len(self)), content)

    def damage(self, contents: Mapping[str, Content]) -> list[str]:
        """What is wrong in any of the files: a line for each stretch of damaged pieces."""
        return [
            f"{self._line(file, first, last)}; {self.back}."
            for file, content in contents.items()
            for first, last in _stretches(self._bad(file, np.arange(len(self)), content).tolist())
        ]

    def _check(self, file: str, pieces: NDArray[np.int64], content: Content) -> None:
        if len(pieces) and pieces[-1] >= len(self):
            raise DamagedError(f"{self.folder / PIECES}: ends at row {self.rows:,}, before the rows do; {self.back}.")
        for first, last in _stretches(self._bad(file, pieces, content).tolist()):
            raise DamagedError(f"{self._line(file, first, last)}; {self.back}.")

    def _bad(self, file: str, pieces: NDArray[np.int64], content: Content) -> NDArray[np.int64]:
        """Those of the pieces that are not as they were written."""
        pieces = pieces[~self._good[file][pieces]]
        data = _bytes_of(content)
        starts, ends = self._ends[file][pieces], self._ends[file][pieces + 1]
        sums = (xxhash.xxh3_64_intdigest(data[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True))
        good = np.fromiter(sums, dtype=np.uint64, count=len(pieces)) == self._sums[file][pieces]
        good &= ends <= len(data)
        self._good[file][pieces[good]] = True
        bad: NDArray[np.int64] = pieces[~good]
        return bad

    def _line(self, file: str, first: int, last: int) -> str:
        rows = f"{int(self._rows[first]):,} to {int(self._rows[last + 1]) - 1:,}"
        return f"{self.folder / file}: is damaged at rows {rows} (its checksum differs)"

    def _read(self, rows: int | None) -> NDArray[Any]:
        path = self.folder / PIECES
        raw = path.read_bytes()
        size = self.record_type.itemsize
        records = np.frombuffer(raw, dtype=self.record_type, count=len(raw) // size)
        if rows is not None:  # what lies behind the last of them may be half-written
            reached = int(np.argmin(np.append(records["row"] < rows, False)))
            records = records[: reached + 1 if rows else 0]
        view = memoryview(raw)
        sums = (xxhash.xxh3_64_intdigest(view[at : at + size - 8]) for at in range(0, len(records) * size, size))
        wrong = np.flatnonzero(np.fromiter(sums, dtype=np.uint64, count=len(records)) != records["own"])
        if len(wrong):
            if any(raw[int(wrong[0]) * size :]):
                raise DamagedError(f"{path}: is damaged at piece {int(wrong[0]) + 1:,}; {self.back}.")
            records = records[: int(wrong[0])]  # the length of the file reached the disk, its content did not
        return records if rows is None else records[records["row"] <= rows]


_FIELDS = (("end", "<i8"), ("sum", "<u8"))


class PieceWriter:
    """Appends records behind the first `rows` rows; earlier ones beyond are cut off."""

    def __init__(self, folder: Path, files: Sequence[str], back: str, *, rows: int) -> None:
        new = not (folder / PIECES).exists()
        self._file = open(folder / PIECES, "w+b" if new else "r+b")  # noqa: SIM115 closed in close()
        if new:
            sync_folder(folder)
        try:
            there = Pieces(folder, files, back, rows=rows)
        except BaseException:
            self._file.close()
            raise
        self._type, self.rows = there.record_type, there.rows
        self._ends = [there.bytes(file) for file in files]
        self._file.truncate(len(there) * self._type.itemsize)
        self._file.seek(0, os.SEEK_END)

    def append(self, parts: Sequence[tuple[int, Sequence[Content]]]) -> None:
        """parts: for each piece, how many rows it has and its bytes in every file. Synced when it returns."""
        records = np.zeros(len(parts), dtype=self._type)
        for record, (rows, contents) in zip(records, parts, strict=True):
            self.rows += rows
            record["row"] = self.rows
            for number, content in enumerate(contents):
                data = _bytes_of(content)
                self._ends[number] += len(data)
                record[f"end{number}"] = self._ends[number]
                record[f"sum{number}"] = xxhash.xxh3_64_intdigest(data)
            record["own"] = xxhash.xxh3_64_intdigest(record.tobytes()[:-8])
        self._file.write(records.tobytes())
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        with suppress(OSError):  # what was not written was not synced, and counts for nothing
            self._file.close()


def rows_in_a_piece(row_bytes: int) -> int:
    return max(1, PIECE_BYTES // max(1, row_bytes))


def piece_ends(row_bytes: int, text_ends: NDArray[np.int64]) -> list[int]:
    """Rows at which pieces of new rows end, each with about PIECE_BYTES of what is longest.

    row_bytes: of a row in the file whose rows are all as long; text_ends: where each row's text ends.
    """
    by_rows = np.arange(len(text_ends)) // rows_in_a_piece(row_bytes)
    last = (np.diff(by_rows) != 0) | (np.diff(text_ends // PIECE_BYTES) != 0)
    return [*(np.flatnonzero(last) + 1).tolist(), *([len(text_ends)] if len(text_ends) else [])]


def _bytes_of(content: Content) -> memoryview:
    if not len(content):
        return memoryview(b"")
    return memoryview(content.data if isinstance(content, np.ndarray) else content).cast("B")


def _behind_zero(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), values.astype(np.int64)])


def _stretches(pieces: list[int]) -> list[tuple[int, int]]:
    """First and last of each run of numbers that follow one another."""
    found: list[tuple[int, int]] = []
    for piece in pieces:
        if found and found[-1][1] == piece - 1:
            found[-1] = (found[-1][0], piece)
        else:
            found.append((piece, piece))
    return found
