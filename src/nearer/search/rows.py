"""Appending sentences with their vectors to an index' files, so that an interruption costs one window."""

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
from nearer.search.texts import ANEW, ENDS, ID_ENDS, IDS, TEXTS, check_size, encoded
from nearer.storage.pieces import PIECES, PieceWriter, piece_ends
from nearer.storage.whole import whole_file

VECTORS, LINES, DOCUMENTS = "vectors.bin", "lines.bin", "documents.bin"
# as `pieces.bin` has their checksums
FILES = (TEXTS, ENDS, IDS, ID_ENDS, LINES, DOCUMENTS, VECTORS)

Ends = NDArray[np.int64]


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
        data, ends = encoded(rows.texts, before.text_bytes)
        ids, id_ends = encoded(rows.ids, before.id_bytes)
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
