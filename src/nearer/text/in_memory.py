"""Rows of what is in memory already: lists and other iterables, data frames, data sets.

A record of a list is what a line of JSON lines is: a string, a list in the fields' order, or named fields. Data frames
and data sets name their columns once, as a Parquet file does. None of their libraries is imported: objects are known by
what they can do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nearer.errors import SettingError
from nearer.text.faults import Fault, ReadReport
from nearer.text.records import RankingList, Row
from nearer.text.shapes import Shape, check_column_count, resolve_columns
from nearer.text.text_formats import value_row

Source = str | os.PathLike[str] | Iterable[Any]  # a path, or what `InMemory` takes
TAKEN = "a file's path, a list or another iterable of records, a data frame, or a data set"


def is_path(source: object) -> bool:
    return isinstance(source, (str, os.PathLike))


def is_table(source: object) -> bool:
    """A data frame, an Arrow table or a data set: what names its columns."""
    return not isinstance(source, Mapping) and _column_names(source, "source") is not None


class InMemory:
    """Records in memory, which can be read as often as a file can; an iterator is read once and kept.

    argument: what the caller named it, for messages.
    """

    name: str
    records: Iterable[Any]
    names: list[str] | None  # of the columns, where the source as a whole has some

    def __init__(self, source: Any, argument: str) -> None:
        if isinstance(source, InMemory):  # a reading of a reading's source
            self.name, self.records, self.names = source.name, source.records, source.names
            return
        self.name = f"{argument} (a {type(source).__name__})"
        if isinstance(source, (bytes, bytearray)):
            raise SettingError(f"{argument}: is bytes; give {TAKEN}.")
        if isinstance(source, (set, frozenset)):
            raise SettingError(f"{argument}: is a set, whose order changes from run to run; give sorted({argument}).")
        self.names = _column_names(source, argument)
        self.records = source
        if self.names is not None:
            return
        if isinstance(source, Mapping) or not isinstance(source, Iterable):
            raise SettingError(f"{argument}: a {type(source).__name__} cannot be read; give {TAKEN}.")
        if iter(source) is source:
            self.records = list(source)

    def rows(self, shape: Shape, columns: Sequence[str] | None, report: ReadReport) -> Iterator[Row]:
        """Numbered from 1."""
        if self.names is None:
            report.unit = "record"
            if columns is not None:
                check_column_count(shape, columns)
            is_series = hasattr(self.records, "to_frame")  # one column of a data frame
            for number, record in enumerate(self.records, 1):
                yield _record_row(number, _cell(record) if is_series else record, shape, columns, is_series)
            return
        report.unit = "row"
        names = self.names
        indices = resolve_columns(shape, columns, names, self.name)
        report.note(f"columns used: {', '.join(names[index] for index in indices if index is not None)}")
        for number, values in enumerate(_table_rows(self.records, names), 1):
            yield Row(number, [None if index is None else _cell(values[index]) for index in indices])


def _record_row(number: int, record: Any, shape: Shape, columns: Sequence[str] | None, is_series: bool) -> Row:
    if isinstance(record, RankingList):
        return Row(number, (record.sentences,))
    if record is None and is_series:
        return Row(number, (), Fault.EMPTY)
    try:
        return value_row(number, _plain(record), shape, columns)
    except RecursionError:
        return Row(number, (), Fault.WRONG_FIELDS, "lists within lists, too many")


def _column_names(source: Any, argument: str) -> list[str] | None:
    """Of a data frame, an Arrow table or a data set; None of anything else."""
    if isinstance(source, Mapping):
        splits = [name for name, part in source.items() if hasattr(part, "column_names")]
        if splits:
            raise SettingError(f"{argument}: has the splits {', '.join(splits)}; give one, {argument}[{splits[0]!r}].")
        return None
    if hasattr(source, "itertuples") or hasattr(source, "iter_rows"):  # pandas, polars
        return [str(name) for name in source.columns]
    if hasattr(source, "column_names") and hasattr(source, "to_pylist"):  # Arrow
        return [str(name) for name in source.column_names]
    if hasattr(source, "column_names") and hasattr(source, "features"):  # Hugging Face; a stream may not know them
        return [str(name) for name in source.column_names or next(iter(source), {})]
    return None


def _table_rows(table: Any, names: Sequence[str]) -> Iterator[Sequence[Any]]:
    if hasattr(table, "itertuples"):
        yield from table.itertuples(index=False, name=None)
    elif hasattr(table, "iter_rows"):
        yield from table.iter_rows()
    elif hasattr(table, "to_batches"):
        for batch in table.to_batches():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    else:
        for row in table:
            yield [row.get(name) for name in names]


def _cell(value: Any) -> Any:
    """A data frame says "nothing here" in several ways."""
    if (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return _plain(value)


def _plain(value: Any) -> Any:
    """In Python's own types, as JSON would give it: NumPy's numbers and arrays come out of data frames."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value
