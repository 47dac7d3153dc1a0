"""The rows of an index as its files hold them: appended with their vectors, mapped, and checked before they are used.

What is appended is on the disk at once, so that an interruption costs one window. Texts and vectors are checked piece
by piece when a row is first looked at. The other files are small, and checked when they are opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearer.errors import DamagedError, InputError
from nearer.search.text_store import ANEW, ENDS, ID_ENDS, IDS, TEXTS, TextStore, check_size, encode_texts, map_array
from nearer.storage.pieces import PIECES, Pieces, PieceWriter, piece_ends
from nearer.storage.whole import whole_file

VECTORS, LINES, DOCUMENTS = "vectors.bin", "lines.bin", "documents.bin"
# as `pieces.bin` has their checksums
FILES = (TEXTS, ENDS, IDS, ID_ENDS, LINES, DOCUMENTS, VECTORS)

Ends = NDArray[np.int64]
INT64 = np.dtype(np.int64)
ROWS_AT_ONCE = 2**16  # that get their checksums later, see `add_missing_pieces`


class Extent(NamedTuple):
    """How far the files are good."""

    rows: int = 0
    text_bytes: int = 0
    id_bytes: int = 0
    documents: int = 0


class NewRows(NamedTuple):
    """What is appended: texts, the lines and documents they come from, these documents' ids ("" for none)."""

    texts: Sequence[str]
    ids: Sequence[str]
    lines: NDArray[np.int64]
    documents: NDArray[np.int64]
    vectors: NDArray[np.float32]


class RowWriter:
    """Cuts the files of `folder` down to `extent` and appends there. What `append` was given is on the disk."""

    def __init__(self, folder: Path, dimension: int, extent: Extent, back: str = ANEW) -> None:
        """back: what to do where there is damage."""
        self.folder = folder
        self.dimension = dimension
        self.extent = extent
        self.back = back
        self._files: dict[str, BinaryIO] = {}
        self._pieces: PieceWriter

    def __enter__(self) -> Self:
        try:
            for name, size in file_sizes(self.extent, self.dimension).items():
                path = self.folder / name
                if size:
                    check_size(path, size, self.back)
                file = self._files[name] = open(path, "r+b" if path.exists() else "w+b")
                file.truncate(size)
                file.seek(size)
            self._pieces = PieceWriter(self.folder, FILES, self.back, rows=self.extent.rows)
            if self._pieces.rows != self.extent.rows:
                self._pieces.close()
                raise DamagedError(
                    f"{self.folder / PIECES}: ends at row {self._pieces.rows:,}, {self.extent.rows:,} are there; "
                    f"{self.back}."
                )
        except OSError as error:
            self._close()
            raise self._unwritable(error) from None
        except InputError:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()
        self._pieces.close()

    def append(self, rows: NewRows) -> Extent:
        """Returns how far the files are good now."""
        before = self.extent
        data, ends = encode_texts(rows.texts, before.text_bytes)
        ids, id_ends = encode_texts(rows.ids, before.id_bytes)
        vectors = np.ascontiguousarray(rows.vectors, dtype=np.float32)
        contents = (data, ends, ids, id_ends, rows.lines, rows.documents, vectors)
        parts: dict[str, Any] = dict(zip(FILES, contents, strict=True))
        try:
            for name, part in parts.items():
                self._files[name].write(part)
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            # last, since checksums speak of what is there
            self._pieces.append(pieces_of(parts, ends - before.text_bytes, id_ends - before.id_bytes))
        except OSError as error:
            raise self._unwritable(error) from None
        self.extent = Extent(
            before.rows + len(rows.texts),
            before.text_bytes + len(data),
            before.id_bytes + len(ids),
            int(rows.documents[-1]) + 1 if len(rows.documents) else before.documents,
        )
        return self.extent

    def _close(self) -> None:
        for file in self._files.values():
            with suppress(OSError):  # what is not on the disk by now does not count
                file.close()

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"{self.folder}: the index cannot be written ({error.strerror or error}).")


def file_sizes(extent: Extent, dimension: int) -> dict[str, int]:
    return {
        TEXTS: extent.text_bytes,
        ENDS: 8 * extent.rows,
        IDS: extent.id_bytes,
        ID_ENDS: 8 * extent.rows,
        LINES: 8 * extent.rows,
        DOCUMENTS: 8 * extent.rows,
        VECTORS: 4 * dimension * extent.rows,
    }


def add_missing_files(folder: Path, count: int) -> None:
    """Of an index of format 1: each of its rows is a document without an id."""
    for name, content in (
        (IDS, b""),
        (ID_ENDS, np.zeros(count, dtype=np.int64).tobytes()),
        (DOCUMENTS, np.arange(count, dtype=np.int64).tobytes()),
    ):
        with whole_file(folder / name) as partial:
            partial.write_bytes(content)


def pieces_of(parts: Mapping[str, Any], text_ends: Ends, id_ends: Ends) -> list[tuple[int, list[Any]]]:
    """As `PieceWriter.append` takes them. parts: what each file has of the rows; ends: from the first of them on."""
    offsets = {name: np.append(0, ends).tolist() for name, ends in ((TEXTS, text_ends), (IDS, id_ends))}
    vectors: NDArray[np.float32] = parts[VECTORS]
    cuts = [0, *piece_ends(vectors.itemsize * vectors.shape[1], text_ends)]

    def part(name: str, start: int, end: int) -> Any:
        at = offsets.get(name)
        return parts[name][start:end] if at is None else parts[name][at[start] : at[end]]

    return [(end - start, [part(name, start, end) for name in FILES]) for start, end in pairwise(cuts)]


class StoredRows:
    """Rows up to an extent; any number of threads may look at them. `documents` and `ids` are None in format 1."""

    def __init__(self, folder: Path, extent: Extent, dimension: int, back: str = ANEW, *, format: int = 3) -> None:
        """back: what to do where there is damage. format: of the index; up to 2 there are no checksums."""
        self.extent = extent
        count = extent.rows
        self.pieces = open_pieces(folder, count, back) if format > 2 else None
        self.texts = TextStore(folder, count, extent.text_bytes, pieces=self.pieces, back=back)
        self._vectors: NDArray[np.float32] = map_array(folder / VECTORS, np.dtype(np.float32), (count, dimension), back)
        self.lines: NDArray[np.int64] = map_array(folder / LINES, INT64, (count,), back)
        self.documents: NDArray[np.int64] | None = None  # of each row, from 0; passages are rows one behind the other
        self.ids: TextStore | None = None
        if format > 1:
            self.documents = map_array(folder / DOCUMENTS, INT64, (count,), back)
            self.ids = TextStore(folder, count, extent.id_bytes, IDS, ID_ENDS, pieces=self.pieces, back=back)
        if self.pieces is not None:
            for name in (IDS, LINES, DOCUMENTS):
                self.pieces.check_all(name, self.contents()[name])

    @property
    def vectors(self) -> NDArray[np.float32]:
        """All of them (rows, dimension), checked."""
        if self.pieces is not None:
            self.pieces.check_all(VECTORS, self._vectors)
        return self._vectors

    def vectors_of(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        if self.pieces is not None:
            self.pieces.check_rows(VECTORS, rows, self._vectors)
        found: NDArray[np.float32] = self._vectors[rows]
        return found

    def contents(self) -> dict[str, Any]:
        """What the files hold, unchecked."""
        found: dict[str, Any] = {TEXTS: self.texts.content, ENDS: self.texts.ends}
        if self.documents is not None and self.ids is not None:
            found |= {IDS: self.ids.content, ID_ENDS: self.ids.ends, DOCUMENTS: self.documents}
        return found | {LINES: self.lines, VECTORS: self._vectors}

    def check_from(self, first: int) -> None:
        """All that rows from `first` on have in any file."""
        if self.pieces is not None:
            rows = np.arange(first, self.extent.rows)
            for name, content in self.contents().items():
                self.pieces.check_rows(name, rows, content)


def open_pieces(folder: Path, count: int, back: str) -> Pieces:
    check_size(folder / PIECES, 0, back)
    pieces = Pieces(folder, FILES, back, rows=count)
    if pieces.rows != count:
        raise DamagedError(f"{folder / PIECES}: has checksums of {pieces.rows:,} rows, {count:,} are there; {back}.")
    return pieces


def add_missing_pieces(folder: Path, extent: Extent, dimension: int, back: str) -> None:
    """Of an index of format 1 or 2, whose rows have no checksums yet: from now on they stay as they are."""
    stored = StoredRows(folder, extent, dimension, back, format=2)
    contents = stored.contents()
    for name in (ENDS, ID_ENDS):
        if (np.diff(contents[name], prepend=0) < 0).any():
            raise DamagedError(f"{folder / name}: is damaged; {back}.")
    writer = PieceWriter(folder, FILES, back, rows=0)
    try:
        for start in range(0, extent.rows, ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, extent.rows)
            parts, rows = {}, {}
            for texts, ends in ((TEXTS, ENDS), (IDS, ID_ENDS)):
                first = int(contents[ends][start - 1]) if start else 0
                rows[texts] = contents[ends][start:end] - first
                parts[texts] = memoryview(contents[texts])[first : first + int(rows[texts][-1])]
            parts |= {name: contents[name][start:end] for name in (ENDS, ID_ENDS, LINES, DOCUMENTS, VECTORS)}
            writer.append(pieces_of(parts, rows[TEXTS], rows[IDS]))
    finally:
        writer.close()
