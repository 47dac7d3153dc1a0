"""Rows of Parquet files, plain or compressed as a whole, in bounded memory whatever a file says of itself.

A compressed file is unpacked onto the disk first, since Parquet cannot be read front to back. Arrow's columns become
Python's values when their sizes are known.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, first_line
from nearer.extras import require
from nearer.text.faults import Fault, ReadReport
from nearer.text.parquet_pages import DamagedFooter, UnboundedPages, column_chunks, rows_at_once
from nearer.text.records import Row
from nearer.text.shapes import Shape, resolve_columns
from nearer.text.sources import CHUNK, DamagedData, open_bytes, open_file
from nearer.units import as_bytes, parsed_bytes

BATCH = 4096
# Decoded at a time, and made into Python's values at a time
BATCH_BYTES = 128 * 2**20
ITEM_BYTES = 8  # what each item of a list takes besides its text
VARIABLE = "NEARER_MAX_UNPACKED"
# Without the variable: what is packed already (as Parquet is) hardly shrinks, and small files may
RATIO = 100
LEAST = 64 * 2**20

Sizes = NDArray[np.int64]


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
    with open_seekable(path) as plain:
        try:
            file = parquet.ParquetFile(plain, buffer_size=CHUNK)
            names = file.schema_arrow.names
        except failures as error:
            raise InputError(f"{path}: not a readable Parquet file ({first_line(error)}).") from None
        indices = resolve_columns(shape, columns, names, path)
        wanted = [names[index] for index in indices if index is not None]
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
            for values in _rows([None if index is None else names[index] for index in indices], batch, limit):
                number += 1
                yield _row(number, values)


def _batches(file: Any, plain: BinaryIO, columns: list[str]) -> Iterator[Any]:
    import pyarrow.parquet as parquet

    described = [file.schema.column(index) for index in range(len(file.schema))]
    leaves = [index for index, leaf in enumerate(described) if leaf.path.split(".")[0] in columns]
    # texts as numbers of entries in a dictionary: one that stands there a million times is there once
    texts = [described[index].path for index in leaves if described[index].physical_type == "BYTE_ARRAY"]
    file = parquet.ParquetFile(plain, buffer_size=CHUNK, read_dictionary=texts)
    # one row group at a time: a batch over two of them would be lost whole to damage in the second
    for group, found in enumerate(column_chunks(plain)):
        if len(found) < len(described):
            raise DamagedFooter("a row group without all columns")
        chunks = [(found[index], described[index].max_repetition_level > 0) for index in leaves]
        rows = rows_at_once(plain, chunks, BATCH, BATCH_BYTES)
        yield from file.iter_batches(rows, row_groups=[group], columns=columns)


def _rows(names: Sequence[str | None], batch: Any, limit: int) -> Iterator[list[object]]:
    """The values of each row, made of so many rows at a time as may be in memory together."""
    order = batch.schema.names  # by number: a name can stand there twice
    columns = [None if name is None else keep_readable(batch.column(order.index(name))) for name in names]
    sizes = [None if column is None else measure_values(column) for column in columns]
    for start, count in cut_rows([size for size in sizes if size is not None], limit, BATCH_BYTES):
        picked = [
            [None] * count
            if column is None or size is None
            else make_values(column.slice(start, count), size[start : start + count], limit)
            for column, size in zip(columns, sizes, strict=True)
        ]
        yield from map(list, zip(*picked, strict=True))


def _row(number: int, values: list[object]) -> Row:
    decoded = [_decoded(value) for value in values]
    error = next((value for value in decoded if isinstance(value, Exception)), None)
    if error is None:
        return Row(number, decoded)
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


class OverLong(Exception):
    """Stands for a value that is longer than any that is kept, and is not made."""


def keep_readable(column: Any) -> Any:
    """A column of single values or of lists of such; of structures and their like, which are no text, nothing."""
    import pyarrow as arrow

    kind = column.type
    if arrow.types.is_fixed_size_list(kind):
        column = column.cast(arrow.list_(kind.value_type))
        kind = column.type
    inner = kind.value_type if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) else kind
    if arrow.types.is_nested(inner):
        return arrow.array(np.zeros(len(column), dtype=bool))  # a kind that no field takes
    return column


def measure_values(column: Any) -> Sizes:
    """About how many bytes each value takes as text (rows,)."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    kind = column.type
    if arrow.types.is_dictionary(kind):
        of_entry = measure_values(column.dictionary)
        entries = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        known = (entries >= 0) & (entries < len(of_entry))  # damaged ones may point beyond
        sizes = np.zeros(len(column), dtype=np.int64)
        sizes[known] = of_entry[entries[known]]
        return sizes
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        ends = column.offsets.to_numpy().astype(np.int64)
        totals = np.concatenate([[0], np.cumsum(measure_values(column.values) + ITEM_BYTES)])
        found: Sizes = totals[ends[1:]] - totals[ends[:-1]]
        return found
    if any(getattr(arrow.types, f"is_{size}{text}")(kind) for size in ("", "large_") for text in ("string", "binary")):
        lengths = compute.binary_length(column).fill_null(0)
        return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.zeros(len(column), dtype=np.int64)


def cut_rows(sizes: Sequence[Sizes], limit: int, most: int) -> Iterator[tuple[int, int]]:
    """Starts and counts of rows whose values take up to `most` bytes together, or of single rows."""
    of_row = np.sum([np.where(size > limit, 0, size) for size in sizes], axis=0)
    ends = np.cumsum(of_row)
    start = 0
    while start < len(of_row):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, stop - start
        start = stop


def make_values(column: Any, sizes: Sizes, limit: int) -> list[object]:
    """A column's values; one that Python cannot hold or nobody wants spoils its own row and not the file."""
    import pyarrow as arrow

    if sizes.max(initial=0) <= limit:
        try:
            return list(_without_dictionaries(column).to_pylist())
        except (ValueError, OverflowError, arrow.ArrowException):
            pass  # one by one, so that the error stands for its own row alone
    return [_value(column, index, int(size), limit) for index, size in enumerate(sizes)]


def _without_dictionaries(column: Any) -> Any:
    """Numbers of entries as what they stand for."""
    import pyarrow as arrow

    kind = column.type
    if arrow.types.is_dictionary(kind):
        return column.dictionary_decode()
    if arrow.types.is_list(kind) and arrow.types.is_dictionary(kind.value_type):
        return column.cast(arrow.list_(kind.value_type.value_type))
    return column


def _value(column: Any, index: int, size: int, limit: int) -> object:
    """One value, or the error that stands for it and makes a fault of its row."""
    import pyarrow as arrow

    if size > limit:
        return OverLong(f"{size:,} bytes")
    try:
        return column[index].as_py()
    # text that is not UTF-8, a date after the year 9999, an index beyond a damaged dictionary
    except (ValueError, OverflowError, arrow.ArrowException) as error:
        return error


@contextmanager
def open_seekable(path: str) -> Iterator[BinaryIO]:
    """The file itself, or a plain copy of it that is gone afterwards."""
    with open_bytes(path) as (stream, compression):
        if compression is None and path != "-":
            with open_file(path) as file:
                yield file
            return
        with tempfile.TemporaryFile() as copy:
            try:
                _unpack(path, stream, copy, packed=compression is not None)
            except (DamagedData, OSError) as error:
                raise InputError(f"{path}: cannot be decompressed ({first_line(error)}).") from None
            copy.seek(0)
            yield copy


def _unpack(path: str, stream: BinaryIO, copy: BinaryIO, *, packed: bool) -> None:
    size = 0 if path == "-" else Path(path).stat().st_size
    told = os.environ.get(VARIABLE)
    most = parsed_bytes(told, VARIABLE) if told else max(LEAST, RATIO * size)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    written = 0
    while chunk := stream.read(CHUNK):
        written += len(chunk)
        if packed and written > most:
            raise InputError(
                f"{path}: unpacks to more than {as_bytes(most)}; if that is right, set {VARIABLE} to a larger size, "
                "such as 20GB."
            )
        if written > free * 9 // 10:
            raise InputError(
                f"{path}: needs more than the {as_bytes(free)} that are free in {tempfile.gettempdir()}; make room "
                "there, or set TMPDIR to a folder elsewhere."
            )
        copy.write(chunk)
