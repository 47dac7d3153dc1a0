"""Appending sentences with their vectors to an index' files, so that an interruption costs one window."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError
from nearer.search.texts import ENDS, ID_ENDS, IDS, TEXTS, check_size, encoded, mapped
from nearer.whole_file import whole_file

VECTORS, LINES, DOCUMENTS = "vectors.bin", "lines.bin", "documents.bin"


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

    def __init__(self, folder: Path, dimension: int, extent: Extent) -> None:
        self.folder = folder
        self.dimension = dimension
        self.extent = extent
        self._files: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        try:
            for name, size in file_sizes(self.extent, self.dimension).items():
                path = self.folder / name
                if size:
                    check_size(path, size)
                file = self._files[name] = open(path, "r+b" if path.exists() else "w+b")
                file.truncate(size)
                file.seek(size)
        except OSError as error:
            self._close()
            raise self._unwritable(error) from None
        except InputError:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def append(self, rows: NewRows) -> Extent:
        """Returns how far the files are good now."""
        data, ends = encoded(rows.texts, self.extent.text_bytes)
        ids, id_ends = encoded(rows.ids, self.extent.id_bytes)
        parts = {
            TEXTS: data,
            ENDS: ends.tobytes(),
            IDS: ids,
            ID_ENDS: id_ends.tobytes(),
            LINES: rows.lines.tobytes(),
            DOCUMENTS: rows.documents.tobytes(),
            VECTORS: rows.vectors.tobytes(),
        }
        try:
            for name, part in parts.items():
                self._files[name].write(part)
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._unwritable(error) from None
        before = self.extent
        self.extent = Extent(
            before.rows + len(rows.texts),
            before.text_bytes + len(data),
            before.id_bytes + len(ids),
            int(rows.documents[-1]) + 1 if len(rows.documents) else before.documents,
        )
        return self.extent

    def _close(self) -> None:
        for file in self._files.values():
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


def open_vectors(folder: Path, count: int, dimension: int) -> NDArray[np.float32]:
    """Mapped (count, dimension)."""
    return mapped(folder / VECTORS, np.dtype(np.float32), (count, dimension))


def open_lines(folder: Path, count: int) -> NDArray[np.int64]:
    return mapped(folder / LINES, np.dtype(np.int64), (count,))


def open_documents(folder: Path, count: int) -> NDArray[np.int64]:
    """The document of each row, from 0; a document's passages are rows one behind the other."""
    return mapped(folder / DOCUMENTS, np.dtype(np.int64), (count,))


def add_missing_files(folder: Path, count: int) -> None:
    """Of an index of format 1: each of its rows is a document without an id."""
    for name, content in (
        (IDS, b""),
        (ID_ENDS, np.zeros(count, dtype=np.int64).tobytes()),
        (DOCUMENTS, np.arange(count, dtype=np.int64).tobytes()),
    ):
        with whole_file(folder / name) as partial:
            partial.write_bytes(content)
