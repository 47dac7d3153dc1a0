"""The rows of an index as its files hold them: mapped, and checked before anybody uses them.

Texts and vectors are checked piece by piece when a row is first looked at. The other files are small, and checked now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.errors import DamagedError
from nearer.search.rows import DOCUMENTS, FILES, LINES, VECTORS, Extent, pieces_of
from nearer.search.texts import ANEW, ENDS, ID_ENDS, IDS, TEXTS, TextStore, check_size, mapped
from nearer.storage.pieces import PIECES, Pieces, PieceWriter

INT64 = np.dtype(np.int64)
ROWS_AT_ONCE = 2**16


class StoredRows:
    """Rows up to an extent; any number of threads may look at them. `documents` and `ids` are None in format 1."""

    def __init__(self, folder: Path, extent: Extent, dimension: int, back: str = ANEW, *, format: int = 3) -> None:
        """back: what to do where there is damage. format: of the index; up to 2 there are no checksums."""
        self.extent = extent
        count = extent.rows
        self.pieces = open_pieces(folder, count, back) if format > 2 else None
        self.texts = TextStore(folder, count, extent.text_bytes, pieces=self.pieces, back=back)
        self._vectors: NDArray[np.float32] = mapped(folder / VECTORS, np.dtype(np.float32), (count, dimension), back)
        self.lines: NDArray[np.int64] = mapped(folder / LINES, INT64, (count,), back)
        self.documents: NDArray[np.int64] | None = None  # of each row, from 0; passages are rows one behind the other
        self.ids: TextStore | None = None
        if format > 1:
            self.documents = mapped(folder / DOCUMENTS, INT64, (count,), back)
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
