"""A NumPy file that grows: rows are written as they come, their number when it is known."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearer.errors import InputError
from nearer.storage.whole import sync_folder


class GrowingFile:
    """Rows go into `partial`, which `finish` makes the file `path`. Left before that, it goes away again.

    row: the shape of one row. shared: a file that another process has made and will finish.
    """

    def __init__(
        self, path: Path, partial: Path, dtype: DTypeLike, row: tuple[int, ...], *, shared: bool = False
    ) -> None:
        self.path, self.partial = path, partial
        self.dtype = np.dtype(dtype)
        self.row = row
        self.rows = 0
        self._shared = shared
        self._start = len(_header(0, row, self.dtype))
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            self._file = open(self.partial, "r+b" if self._shared else "wb")
        except OSError as error:
            raise self._unwritable(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as problem:
            if kind is None:
                raise self._unwritable(problem) from None
        finally:
            if not self._shared:
                self.partial.unlink(missing_ok=True)

    def for_another_process(self) -> GrowingFile:
        """The same file for a process that writes some of its rows."""
        return GrowingFile(self.path.absolute(), self.partial.absolute(), self.dtype, self.row, shared=True)

    def append(self, rows: NDArray[Any]) -> None:
        self.write(self.rows, rows)

    def write(self, row: int, rows: NDArray[Any]) -> None:
        """Write `rows` as those from `row` on."""
        assert self._file is not None
        try:
            self._file.seek(self._start + row * self.dtype.itemsize * int(np.prod(self.row, dtype=np.int64)))
            self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from None
        self.rows = max(self.rows, row + len(rows))

    def finish(self, rows: int) -> None:
        """Say how many rows there are, and give the file its name."""
        assert self._file is not None
        try:
            self._file.seek(0)
            self._file.write(_header(rows, self.row, self.dtype))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self.partial.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"{self.path}: cannot be written ({error.strerror}).")


def _header(rows: int, row: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """The beginning of a NumPy file. NumPy leaves room in it, so that it is as long for any number of rows."""
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (rows, *row)}
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()
