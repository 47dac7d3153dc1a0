"""Rows of text files: plain lines, tab-separated, comma-separated, and JSON lines."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nearer.errors import InputError, SettingError, first_line
from nearer.text.faults import Fault, ReadReport
from nearer.text.records import Row
from nearer.text.shapes import (
    RANKING_LISTS,
    Shape,
    check_column_count,
    match_columns,
    named_columns,
    shown_names,
    unclear_columns,
)
from nearer.text.sources import LINE_LIMIT, TextLine

# A quote that is still open after so many lines was never meant as one.
QUOTED_LINES = 100


class Cells(NamedTuple):
    """One row cut into cells, before anybody knows which column is which."""

    line: int
    cells: list[str]
    fault: Fault | None = None
    detail: str = ""


def plain_rows(lines: Iterable[TextLine], shape: Shape) -> Iterator[Row]:
    """A plain text file: each line is one sentence."""
    empty = (None,) * (len(shape.fields) - 1)
    for line in lines:
        yield Row(line.number, (line.text, *empty), line.fault, line.detail)


def tab_cells(lines: Iterable[TextLine]) -> Iterator[Cells]:
    """Tab-separated: quotes are ordinary characters, as in the STS files."""
    for line in lines:
        yield Cells(line.number, line.text.split("\t"), line.fault, line.detail)


def comma_cells(lines: Iterable[TextLine], limit: int = LINE_LIMIT) -> Iterator[Cells]:
    """Comma-separated with quoted cells, which may run over several lines of up to `limit` characters in all.

    A quote that never closes, or that closes only after a faulty line, costs its own line only: the usual
    readers swallow the rest of the file. A carriage return inside a line becomes a space.
    """
    csv.field_size_limit(max(limit, csv.field_size_limit()))  # the module's own 131,072 is for the whole process
    feed = _Feed(lines)
    reader = csv.reader(feed, strict=True)
    while True:
        feed.taken.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, _OpenQuote) as error:
            reader = csv.reader(feed, strict=True)  # a new one, which knows nothing of the open quote
            if not feed.taken:
                line = feed.take()
                yield Cells(line.number, [], line.fault, line.detail)
                continue
            first, *rest = feed.taken
            feed.waiting.extendleft(reversed(rest))
            yield Cells(first.number, [], Fault.BAD_QUOTES, str(error))
            continue
        yield Cells(feed.taken[0].number, cells or [""])


class _OpenQuote(Exception):
    pass


class _Feed:
    """Hands lines to the csv module and remembers which ones the record at hand took."""

    def __init__(self, lines: Iterable[TextLine]) -> None:
        self.lines = iter(lines)
        self.waiting: deque[TextLine] = deque()
        self.taken: list[TextLine] = []

    def take(self) -> TextLine:
        return self.waiting.popleft() if self.waiting else next(self.lines)

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        if len(self.taken) >= QUOTED_LINES:
            raise _OpenQuote(f"a quote is still open after {QUOTED_LINES} lines")
        line = self.take()
        if line.fault:
            self.waiting.appendleft(line)
            raise _OpenQuote(f"a quote is still open at line {line.number}, which cannot be read")
        self.taken.append(line)
        return line.text.replace("\r", " ") + "\n"


def table_rows(
    table: Iterable[Cells], shape: Shape, columns: Sequence[str] | None, source: str, report: ReadReport
) -> Iterator[Row]:
    """Pick the shape's fields out of a table's cells.

    The first good row is a header when the columns were named by name or it names all required fields;
    `columns` given as numbers (from 0) or a first row that is no header mean a table without one.
    """
    if shape is RANKING_LISTS and columns is not None:
        raise SettingError("columns: a ranking list is a table's whole row; leave them out.")
    rows = iter(table)
    first: Cells | None = None
    for cells in rows:
        if cells.fault is None and any(cell.strip() for cell in cells.cells):
            first = cells
            break
        yield Row(cells.line, (), cells.fault or Fault.EMPTY, cells.detail)
    if first is None:
        return
    if shape is RANKING_LISTS:
        yield from _list_rows(first, rows)
        return
    indices, is_header = _find_columns(first.cells, shape, columns, source)
    if is_header:
        report.note(f"line {first.line} is the header; columns used: {_used(first.cells, indices)}")
    width = len(first.cells)
    if not is_header:
        yield _pick(first, indices, width)
    for cells in rows:
        yield _pick(cells, indices, width)


def _list_rows(first: Cells, rest: Iterator[Cells]) -> Iterator[Row]:
    """Ranking lists: one a row, of any length."""
    yield Row(first.line, (first.cells,))
    for cells in rest:
        fault = cells.fault or (None if any(cell.strip() for cell in cells.cells) else Fault.EMPTY)
        yield Row(cells.line, (cells.cells,), fault, cells.detail)


def _pick(cells: Cells, indices: Sequence[int | None], width: int) -> Row:
    if cells.fault:
        return Row(cells.line, (), cells.fault, cells.detail)
    if not any(cell.strip() for cell in cells.cells):
        return Row(cells.line, (), Fault.EMPTY)
    if len(cells.cells) != width:
        return Row(cells.line, (), Fault.WRONG_COLUMNS, f"{len(cells.cells)} found, {width} expected")
    return Row(cells.line, [None if index is None else cells.cells[index] for index in indices])


def _find_columns(
    first: list[str], shape: Shape, columns: Sequence[str] | None, source: str
) -> tuple[list[int | None], bool]:
    if columns is None:
        indices = match_columns(shape, first)
        if indices is not None:
            return indices, True
        if len(first) not in shape.value_counts:
            raise unclear_columns(shape, first, source)
        return [index if index < len(first) else None for index in range(len(shape.fields))], False
    if all(column.isdecimal() for column in columns):
        check_column_count(shape, columns)
        beyond = [column for column in columns if len(column) > 9 or int(column) >= len(first)]
        if beyond:
            raise InputError(
                f"{source}: column {beyond[0][:20]} asked for, the first row has {len(first)} (counted from 0)."
            )
        numbers: list[int | None] = [int(column) for column in columns]
        return numbers + [None] * (len(shape.fields) - len(numbers)), False
    return named_columns(shape, columns, [cell.strip() for cell in first], source), True


def _used(names: Sequence[str], indices: Sequence[int | None]) -> str:
    return ", ".join(names[index].strip() for index in indices if index is not None)


def json_rows(lines: Iterable[TextLine], shape: Shape, columns: Sequence[str] | None) -> Iterator[Row]:
    """One JSON value a line: an object with named fields, an array in the fields' order, or a bare string.

    With `columns`, an array's items go by their numbers (from 0).
    """
    if columns is not None:
        check_column_count(shape, columns)
    for line in lines:
        if line.fault or not line.text.strip():
            yield Row(line.number, (), line.fault or Fault.EMPTY, line.detail)
            continue
        try:
            value = json.loads(line.text)
        except json.JSONDecodeError as error:
            yield Row(line.number, (), Fault.BAD_JSON, f"{error.msg}, character {error.pos + 1}")
            continue
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, a nest of thousands of lists
            yield Row(line.number, (), Fault.BAD_JSON, first_line(error))
            continue
        yield value_row(line.number, value, shape, columns)


def value_row(number: int, value: object, shape: Shape, columns: Sequence[str] | None) -> Row:
    """The row of one value as JSON knows them."""
    if isinstance(value, dict):
        return _object_row(number, value, shape, columns)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return Row(
            number, (), Fault.WRONG_FIELDS, f"an object, a list or a string expected, {type(value).__name__} found"
        )
    if columns is not None:
        return _object_row(number, {str(index): item for index, item in enumerate(value)}, shape, columns)
    if shape is RANKING_LISTS:
        return Row(number, (value,))
    if len(value) not in shape.value_counts:
        return Row(number, (), Fault.WRONG_COLUMNS, f"{len(value)} found, {shape.required} expected")
    return Row(number, value + [None] * (len(shape.fields) - len(value)))


def _object_row(number: int, value: Mapping[str, Any], shape: Shape, columns: Sequence[str] | None) -> Row:
    if columns is not None:
        missing = [column for column in columns if column not in value]
        if missing:
            listed = f"no field {', '.join(map(repr, missing))}, those there are {shown_names(list(value))}"
            return Row(number, (), Fault.WRONG_FIELDS, listed)
        values = [value[column] for column in columns]
        return Row(number, values + [None] * (len(shape.fields) - len(values)))
    names = list(value)
    indices = match_columns(shape, names)
    if indices is None:
        found = ", ".join(repr(name[:20]) for name in names[:5])
        return Row(number, (), Fault.WRONG_FIELDS, f"no {shape.name} in the fields {found}")
    return Row(number, [None if index is None else value[names[index]] for index in indices])
