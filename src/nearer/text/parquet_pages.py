"""How large the pages of a Parquet file become when they are unpacked, read from the pages' own headers.

A file of some hundred bytes can hold a page of gigabytes: runs of equal bytes, one value a million times. What the
file's footer says of sizes need not be true, but a page's header is what the reader goes by. Headers are structures of
Thrift's compact protocol (apache/parquet-format, parquet.thrift); only the few fields that are needed are kept.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

LARGEST_PAGE = 256 * 2**20  # bytes, unpacked; writers make pages of about 1 MiB
MOST_NESTED = 2**27  # values of a column of lists in one row group: a row could hold them all
HEADERS = (2**12, 2**24)  # bytes that a header is looked for in; it has more than some tens only by its statistics
PADDING = 100  # some old writers count the header of a dictionary's page too short
DEEPEST = 20
LARGEST_FOOTER = 64 * 2**20
# Kinds of fields that are kept, since readers take no other for them: numbers of 32 or 64 bits, lists, structures
OF_PAGE, OF_FOOTER = (5, 12), (6, 9, 12)
UNKNOWN = "holds a page with a header of unknown form; write the file anew"
DELTA_BYTE_ARRAY = 7  # each value is a part of the one before it, and more


class DamagedFooter(Exception):
    """What a file says of its columns is not to be understood."""


class UnboundedPages(Exception):
    """Pages that would take more memory than there may be; says what to do about them."""


class Chunk(NamedTuple):
    """A column of a row group: where its pages begin, how many bytes and values it says that they have."""

    first_page: int
    size: int
    values: int


def column_chunks(file: BinaryIO) -> list[list[Chunk]]:
    """The columns of each row group. From the footer itself: pyarrow ends the process over some that are damaged."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - 8))
    length = int.from_bytes(file.read(4), "little")
    if length > LARGEST_FOOTER:
        raise UnboundedPages(f"has a footer of {length:,} bytes, {LARGEST_FOOTER:,} at most are read")
    try:
        file.seek(size - 8 - length)
        footer = _structure(io.BytesIO(file.read(length)), 0, OF_FOOTER)
        return [[_chunk(column[3]) for column in group[1]] for group in footer.get(4, [])]
    except (EOFError, ValueError, KeyError, TypeError, AttributeError):
        raise DamagedFooter("the footer cannot be read") from None


def _chunk(described: dict[int, Any]) -> Chunk:
    first = int(described[9])
    if 0 < described.get(11, 0) < first:  # a dictionary comes before its pages
        first = int(described[11])
    if first < 0:
        raise ValueError(first)
    return Chunk(first, int(described[7]), int(described[5]))


def rows_at_once(file: BinaryIO, chunks: Sequence[tuple[Chunk, bool]], rows: int, most: int) -> int:
    """How many rows, up to `rows`, take at most `most` bytes when they are decoded, or one row.

    chunks: of the columns that are read, each with whether it belongs to a list. They are read as dictionaries: an
    entry that stands there many times is there once. So rows take what their pages take, unless a page has differences,
    of which each value can be as long as the page.
    """
    for chunk, nested in chunks:
        pages = _pages(file, chunk, nested)
        largest = max([1, *(page.unpacked for page in pages)])
        differences = any(page.encoding == DELTA_BYTE_ARRAY for page in pages)
        if differences or _most_together(pages, rows, nested) > most:
            rows = max(1, min(rows, most // largest))
    return rows


def _most_together(pages: Sequence[Page], rows: int, nested: bool) -> int:
    """Bytes of the pages that so many rows can stand in; of lists nobody knows, and all pages count."""
    if nested:
        return sum(page.unpacked for page in pages)
    found, start, together, values = 0, 0, 0, 0
    for page in pages:
        together, values = together + page.unpacked, values + page.values
        while start < len(pages) and values - pages[start].values >= rows:
            together, values, start = together - pages[start].unpacked, values - pages[start].values, start + 1
        found = max(found, together)
    return found + max([0, *(page.unpacked for page in pages)])  # the rows may begin at the end of a page


def _pages(file: BinaryIO, chunk: Chunk, nested: bool) -> list[Page]:
    start, values = chunk.first_page, 0
    pages: list[Page] = []
    while start < chunk.first_page + chunk.size + PADDING and values < chunk.values:
        page = _page(file, start)
        if page is None:  # damage, at which the reader will end as well
            break
        _check(page, nested)
        pages.append(page)
        start, values = page.end, values + page.values
    if nested and values > MOST_NESTED:
        raise UnboundedPages(
            f"a row group has lists of {values:,} values, {MOST_NESTED:,} at most are read; write the file anew "
            "with smaller row groups"
        )
    return pages


class Page(NamedTuple):
    """unpacked: bytes; values: of a data page, a dictionary's has none here; end: where the next one begins."""

    unpacked: int
    values: int
    encoding: object
    end: int


def _check(page: Page, nested: bool) -> None:
    if page.unpacked > LARGEST_PAGE:
        raise UnboundedPages(
            f"holds a page of {page.unpacked:,} bytes, {LARGEST_PAGE:,} at most are read; write the file anew with "
            "smaller pages (data_page_size)"
        )
    if nested and page.encoding == DELTA_BYTE_ARRAY and page.unpacked * page.values > LARGEST_PAGE:
        raise UnboundedPages(
            "its lists are encoded as differences (DELTA_BYTE_ARRAY), of which nobody knows how long they become; "
            "write the file anew with plain or dictionary encoding"
        )


def _page(file: BinaryIO, start: int) -> Page | None:
    """None where no page begins there."""
    for size in HEADERS:
        file.seek(start)
        data = file.read(size)
        stream = io.BytesIO(data)
        try:
            fields = _structure(stream, 0, OF_PAGE)
        except EOFError:
            if len(data) < size:
                return None
        except ValueError:
            return None
        else:
            first, second = fields.get(5), fields.get(8)  # headers of data pages, by their version
            detail, encoding = (second, 4) if second else (first, 2)
            detail = detail if isinstance(detail, dict) else {}
            unpacked, packed, values = (
                number if isinstance(number, int) else -1 for number in (fields.get(2), fields.get(3), detail.get(1, 0))
            )
            if min(unpacked, packed, values) < 0:
                return None
            return Page(unpacked, values, detail.get(encoding), start + stream.tell() + packed)
    raise UnboundedPages(f"holds a page with a header of more than {HEADERS[-1]:,} bytes; write the file anew")


def _structure(stream: io.BytesIO, depth: int, kept: tuple[int, ...]) -> dict[int, Any]:
    """The fields of a structure by their numbers, those of the kinds that are kept."""
    if depth > DEEPEST:
        raise UnboundedPages(UNKNOWN)
    fields: dict[int, Any] = {}
    number = 0
    while kind := _byte(stream):
        step, kind = kind >> 4, kind & 15
        number = number + step if step else _signed(stream)
        value = _value(stream, kind, depth, kept)
        if kind in kept:
            fields[number] = value
    return fields


def _value(stream: io.BytesIO, kind: int, depth: int, kept: tuple[int, ...]) -> Any:
    if kind in (1, 2):  # a truth value, told by its kind
        return kind == 1
    if kind == 3:
        return _byte(stream)
    if kind in (4, 5, 6):
        found = _signed(stream)
        if kind == 5 and not -(2**31) <= found < 2**31:
            raise UnboundedPages(UNKNOWN)
        return found
    if kind == 7:
        return _bytes(stream, 8)
    if kind == 8:
        return _bytes(stream, _number(stream))
    if kind == 12:
        return _structure(stream, depth + 1, kept)
    if kind in (9, 10) and kept is OF_FOOTER:
        head = _byte(stream)
        inner, length = head & 15, head >> 4 if head >> 4 < 15 else _number(stream)
        if inner in (1, 2):  # truth values in a list are bytes
            return _bytes(stream, length)
        return [_value(stream, inner, depth + 1, kept) for _ in range(length)]
    if 9 <= kind <= 13:  # maps and longer numbers, and lists in a page's header: in no file that is known
        raise UnboundedPages(UNKNOWN)
    raise ValueError(kind)


def _bytes(stream: io.BytesIO, count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise EOFError
    return found


def _byte(stream: io.BytesIO) -> int:
    return _bytes(stream, 1)[0]


def _number(stream: io.BytesIO) -> int:
    """A number in steps of seven bits, the lowest first."""
    found = 0
    for shift in range(0, 70, 7):
        byte = _byte(stream)
        found |= (byte & 127) << shift
        if byte < 128:
            return found
    raise ValueError("a number without an end")


def _signed(stream: io.BytesIO) -> int:
    found = _number(stream)
    return (found >> 1) ^ -(found & 1)
