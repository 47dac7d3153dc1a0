"""Rows of Parquet files, plain or compressed as a whole, in bounded memory whatever a file says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from nearer.errors import InputError, first_line
from nearer.extras import require
from nearer.text.faults import Fault, ReadReport
from nearer.text.parquet_pages import DamagedFooter, UnboundedPages, column_chunks, rows_at_once
from nearer.text.rows import Row
from nearer.text.shapes import Shape, resolve_columns
from nearer.text.sources import CHUNK
from nearer.text.unpacking import seekable

BATCH = 4096
# Decoded at a time, and made into Python's values at a time
BATCH_BYTES = 128 * 2**20


def parquet_rows(
    path: str, shape: Shape, columns: Sequence[str] | None, report: ReadReport, limit: int
) -> Iterator[Row]:
    """A Parquet file's rows, numbered from 1. Those with a value of more than `limit` bytes come as faults."""
    require("pyarrow", "parquet", f"{path}: reading Parquet")
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    # A damaged file can break in the reader, in the names of its columns, or in the memory it asks for.
    failures = (arrow.ArrowException, OSError, UnicodeDecodeError, MemoryError)
    report.unit = "row"
    with seekable(path) as plain:
        try:
            file = parquet.ParquetFile(plain, buffer_size=CHUNK)
            names = file.schema_arrow.names
        except failures as error:
            raise InputError(f"{path}: not a readable Parquet file ({first_line(error)}).") from None
        places = resolve_columns(shape, columns, names, path)
        wanted = [names[place] for place in places if place is not None]
        report.note(f"columns used: {', '.join(wanted)}")
        number = 0
        batches = _batches(file, plain, wanted)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except UnboundedPages as error:
                raise InputError(f"{path}: {error}.") from None
            except (*failures, DamagedFooter) as error:
                report.add(Fault.DAMAGED, number + 1, first_line(error))
                return
            for values in _rows([None if place is None else names[place] for place in places], batch, limit):
                number += 1
                yield _row(number, values)


def _batches(file: Any, plain: BinaryIO, columns: list[str]) -> Iterator[Any]:
    import pyarrow.parquet as parquet

    described = [file.schema.column(place) for place in range(len(file.schema))]
    leaves = [place for place, leaf in enumerate(described) if leaf.path.split(".")[0] in columns]
    # texts as numbers of entries in a dictionary: one that stands there a million times is there once
    texts = [described[place].path for place in leaves if described[place].physical_type == "BYTE_ARRAY"]
    file = parquet.ParquetFile(plain, buffer_size=CHUNK, read_dictionary=texts)
    # one row group at a time: a batch over two of them would be lost whole to damage in the second
    for group, found in enumerate(column_chunks(plain)):
        if len(found) < len(described):
            raise DamagedFooter("a row group without all columns")
        chunks = [(found[place], described[place].max_repetition_level > 0) for place in leaves]
        rows = rows_at_once(plain, chunks, BATCH, BATCH_BYTES)
        yield from file.iter_batches(rows, row_groups=[group], columns=columns)


def _rows(names: Sequence[str | None], batch: Any, limit: int) -> Iterator[list[object]]:
    """The values of each row, made of so many rows at a time as may be in memory together."""
    from nearer.text.parquet_values import pieces, python_values, readable, value_sizes  # needs numpy

    order = batch.schema.names  # by number: a name can stand there twice
    columns = [None if name is None else readable(batch.column(order.index(name))) for name in names]
    sizes = [None if column is None else value_sizes(column) for column in columns]
    for start, count in pieces([size for size in sizes if size is not None], limit, BATCH_BYTES):
        picked = [
            [None] * count
            if column is None or size is None
            else python_values(column.slice(start, count), size[start : start + count], limit)
            for column, size in zip(columns, sizes, strict=True)
        ]
        yield from map(list, zip(*picked, strict=True))


def _row(number: int, values: list[object]) -> Row:
    decoded = [_decoded(value) for value in values]
    error = next((value for value in decoded if isinstance(value, Exception)), None)
    if error is None:
        return Row(number, decoded)
    from nearer.text.parquet_values import OverLong

    if isinstance(error, OverLong):
        return Row(number, (), Fault.OVER_LONG, str(error))
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
