"""Rows of Parquet files, plain or compressed as a whole."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from nearer.errors import InputError, first_line
from nearer.extras import require
from nearer.text.compression import DamagedData
from nearer.text.faults import Fault, ReadReport
from nearer.text.rows import Row
from nearer.text.shapes import Shape, resolve_columns
from nearer.text.sources import open_bytes, open_file

BATCH = 4096


def parquet_rows(path: str, shape: Shape, columns: Sequence[str] | None, report: ReadReport) -> Iterator[Row]:
    """A Parquet file's rows, numbered from 1."""
    require("pyarrow", "parquet", f"{path}: reading Parquet")
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    # A damaged file can break in the reader, in the names of its columns, or in the memory it asks for.
    failures = (arrow.ArrowException, OSError, UnicodeDecodeError, MemoryError)
    report.unit = "row"
    with _seekable(path) as plain:
        try:
            file = parquet.ParquetFile(plain)
            names = file.schema_arrow.names
        except failures as error:
            raise InputError(f"{path}: not a readable Parquet file ({first_line(error)}).") from None
        places = resolve_columns(shape, columns, names, path)
        wanted = [names[place] for place in places if place is not None]
        report.note(f"columns used: {', '.join(wanted)}")
        number = 0
        batches = _batches(file, wanted)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except failures as error:
                report.add(Fault.DAMAGED, number + 1, first_line(error))
                return
            picked = [None if place is None else _values(batch, names[place]) for place in places]
            for index in range(batch.num_rows):
                number += 1
                yield _row(number, [None if column is None else column[index] for column in picked])


def _batches(file: Any, columns: list[str]) -> Iterator[Any]:
    # one row group at a time: a batch over two of them would be lost whole to damage in the second
    for group in range(file.num_row_groups):
        yield from file.iter_batches(BATCH, row_groups=[group], columns=columns)


def _values(batch: Any, name: str) -> list[object]:
    """A column's values; one that Python cannot hold spoils its own row and not the file."""
    import pyarrow as arrow

    column = batch.column(batch.schema.names.index(name))  # by number: a name can stand there twice
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, arrow.ArrowException):
        return [_value(column, index) for index in range(len(column))]


def _value(column: Any, index: int) -> object:
    """One value, or the error that stands for it and makes a fault of its row."""
    import pyarrow as arrow

    try:
        return column[index].as_py()
    # text that is not UTF-8, a date after the year 9999, an index beyond a damaged dictionary
    except (ValueError, OverflowError, arrow.ArrowException) as error:
        return error


def _row(number: int, values: list[object]) -> Row:
    decoded = [_decoded(value) for value in values]
    error = next((value for value in decoded if isinstance(value, Exception)), None)
    if error is None:
        return Row(number, decoded)
    if isinstance(error, UnicodeDecodeError):
        return Row(number, (), Fault.INVALID_TEXT, f"byte {error.start + 1}")
    return Row(number, (), Fault.WRONG_FIELDS, first_line(error))


def _decoded(value: object) -> object:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        return error


@contextmanager
def _seekable(path: str) -> Iterator[BinaryIO]:
    """The file itself, or a plain copy of it: Parquet cannot be read front to back."""
    with open_bytes(path) as (stream, compression):
        if compression is None and path != "-":
            with open_file(path) as file:
                yield file
            return
        with tempfile.TemporaryFile(suffix=".parquet") as copy:
            try:
                shutil.copyfileobj(stream, copy)
            except (DamagedData, OSError) as error:
                raise InputError(f"{path}: cannot be decompressed ({first_line(error)}).") from None
            copy.seek(0)
            yield copy
