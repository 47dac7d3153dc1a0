"""Rows of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nearer.errors import first_line
from nearer.text.faults import Fault
from nearer.text.lines import TextLine
from nearer.text.rows import Row
from nearer.text.shapes import RANKING_LISTS, Shape, check_column_count, match_columns, shown_names


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
        return _object_row(number, {str(place): item for place, item in enumerate(value)}, shape, columns)
    if shape is RANKING_LISTS:
        return Row(number, (value,))
    if len(value) not in shape.places:
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
    places = match_columns(shape, names)
    if places is None:
        found = ", ".join(repr(name[:20]) for name in names[:5])
        return Row(number, (), Fault.WRONG_FIELDS, f"no {shape.name} in the fields {found}")
    return Row(number, [None if place is None else value[names[place]] for place in places])
