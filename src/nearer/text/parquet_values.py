"""Arrow's columns as Python's values, with their sizes known before they are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sizes = NDArray[np.int64]

ITEM_BYTES = 8  # what each item of a list takes besides its text


class OverLong(Exception):
    """Stands for a value that is longer than any that is kept, and is not made."""


def readable(column: Any) -> Any:
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


def value_sizes(column: Any) -> Sizes:
    """About how many bytes each value takes as text (rows,)."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    kind = column.type
    if arrow.types.is_dictionary(kind):
        of_entry = value_sizes(column.dictionary)
        entries = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        known = (entries >= 0) & (entries < len(of_entry))  # damaged ones may point beyond
        sizes = np.zeros(len(column), dtype=np.int64)
        sizes[known] = of_entry[entries[known]]
        return sizes
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        ends = column.offsets.to_numpy().astype(np.int64)
        totals = np.concatenate([[0], np.cumsum(value_sizes(column.values) + ITEM_BYTES)])
        found: Sizes = totals[ends[1:]] - totals[ends[:-1]]
        return found
    if any(getattr(arrow.types, f"is_{size}{text}")(kind) for size in ("", "large_") for text in ("string", "binary")):
        lengths = compute.binary_length(column).fill_null(0)
        return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.zeros(len(column), dtype=np.int64)


def pieces(sizes: Sequence[Sizes], limit: int, most: int) -> Iterator[tuple[int, int]]:
    """Starts and counts of rows whose values take up to `most` bytes together, or of single rows."""
    of_row = np.sum([np.where(size > limit, 0, size) for size in sizes], axis=0)
    ends = np.cumsum(of_row)
    start = 0
    while start < len(of_row):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, stop - start
        start = stop


def python_values(column: Any, sizes: Sizes, limit: int) -> list[object]:
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
