"""Reading sentences, pairs, triplets, debiased samples and ranking lists, with an account of every record.

A source is a file, a data set of the hub (`hf:owner/name`), or something in memory (see `in_memory.py`).

reading = read_sentences("corpus.txt.xz")
for sentence in reading:
    ...
print(reading.report)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Generic, Literal, TypeVar

from nearer.errors import InputError, SettingError
from nearer.text.faults import Fault, ReadReport
from nearer.text.hub import HUB_PREFIX, hub_rows
from nearer.text.in_memory import InMemory, Source, is_path
from nearer.text.records import DebiasedSample, Pair, RankingList, Row, Triplet, contains_the_other, without_the_other
from nearer.text.shapes import DEBIASED, PAIRS, RANKING_LISTS, SENTENCES, TRIPLETS, Clean, Shape, Unusable
from nearer.text.sources import LINE_LIMIT, check_encoding, iter_text_lines, open_file
from nearer.text.text_formats import comma_cells, json_rows, plain_rows, tab_cells, table_rows

Record = TypeVar("Record")
FORMATS = ("txt", "csv", "tsv", "jsonl", "parquet")
COMPRESSIONS = ("gz", "xz", "zst", "bz2")
MAX_CHARACTERS = 10_000


@dataclass(frozen=True)
class ReadOptions:
    """How a source is read; part of the key under which its tokens are stored.

    strip_contained: of pairs in which one side contains the other, cut it out of the longer side. allow_dropped: go on
    where most records cannot be used.
    """

    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    format: str | None = None
    max_characters: int = MAX_CHARACTERS
    duplicates: Literal["keep", "drop"] = "keep"
    strip_contained: bool = False
    allow_dropped: bool = False

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if self.format is not None and self.format not in FORMATS:
            raise SettingError(f"format: {self.format!r} is not one of {', '.join(FORMATS)}.")
        if self.max_characters < 1:
            raise SettingError(f"max_characters: {self.max_characters} is below 1.")
        if self.duplicates not in ("keep", "drop"):
            raise SettingError(f"duplicates: {self.duplicates!r} is neither 'keep' nor 'drop'.")

    def to_dict(self) -> dict[str, Any]:
        """What decides which records are read."""
        options = {name: value for name, value in vars(self).items() if name != "allow_dropped"}
        if not self.strip_contained:  # as it was before there was a choice: stored tokens are found again
            del options["strip_contained"]
        return options


class Reading(Generic[Record]):
    """The records of one source. Each iteration reads it anew and makes a new `report`."""

    def __init__(self, source: Source, shape: Shape, options: ReadOptions, *, argument: str = "source") -> None:
        """source: a path, or records in memory; then `argument` is what messages call them."""
        self.in_memory = None if is_path(source) else InMemory(source, argument)
        self.source = str(source) if self.in_memory is None else self.in_memory.name
        if self.in_memory is not None and options.format is not None:
            raise SettingError(f"format: is for files; {self.source} has none.")
        self.shape = shape
        self.options = options
        self.report = ReadReport(self.source)

    def __iter__(self) -> Iterator[Record]:
        for _, record in self.located():
            yield record

    def located(self) -> Iterator[tuple[int, Record]]:
        """Each record with the line (or row) it begins on."""
        report = self.report = ReadReport(self.source, allow_dropped=self.options.allow_dropped)
        clean = Clean(self.options.max_characters)
        seen: set[int] = set()
        counts: tuple[int, int] | None = None
        for row in self._rows(report):
            report.read += 1
            try:
                if row.fault is not None:
                    raise Unusable(row.fault, row.detail)
                if any(_has_nul(value) for value in row.values):
                    report.add(Fault.NUL, row.line)
                record = self.shape.build(row.values, clean)
                if isinstance(record, DebiasedSample):
                    counts = _same_counts(record, counts)
                if isinstance(record, Pair) and record.score is None and contains_the_other(record):
                    record = self._contained(record, row.line, report)
                self._check_duplicate(record, row.line, seen, report)
            except Unusable as problem:
                report.add(problem.fault, row.line, problem.detail)
                continue
            report.kept += 1
            yield row.line, record

    def fingerprint(self) -> str:
        """A digest of the content and the way it is read: equal digests mean equal records."""
        digest = hashlib.blake2b(digest_size=16)
        options: dict[str, Any] = {**self.options.to_dict(), "shape": self.shape.name, "format": self._format()}
        if self.shape.unnamed_fields is not None:  # its fields' names are the user's
            options["fields"] = [field.names for field in self.shape.fields]
        digest.update(json.dumps(options, sort_keys=True).encode())
        if self.in_memory is not None:
            for row in self._rows(ReadReport(self.source)):
                digest.update(repr(row).encode(errors="surrogatepass"))
            return digest.hexdigest()
        if self.source.startswith(HUB_PREFIX):
            for record in self:
                digest.update(repr(record).encode())
            return digest.hexdigest()
        if self.source == "-":
            raise InputError("standard input can be read once only: name a file.")
        with open_file(self.source) as file:
            try:
                while chunk := file.read(2**20):
                    digest.update(chunk)
            except OSError as error:
                raise InputError(f"{self.source}: cannot be read ({error.strerror or error}).") from None
        return digest.hexdigest()

    def _contained(self, pair: Pair, line: int, report: ReadReport) -> Pair:
        if not self.options.strip_contained:
            report.add(Fault.CONTAINED, line)
            return pair
        stripped = without_the_other(pair)
        if stripped is None:
            raise Unusable(Fault.WRONG_FIELDS, "both sides are the same text")
        report.add(Fault.STRIPPED, line)
        return stripped

    def _check_duplicate(self, record: Any, line: int, seen: set[int], report: ReadReport) -> None:
        # 64-bit hashes instead of the texts: one million sentences take about 70 MB
        key = hash(record[:2] if isinstance(record, Pair) else record)
        if key not in seen:
            seen.add(key)
        elif self.options.duplicates == "drop":
            raise Unusable(Fault.DUPLICATE_DROPPED)
        else:
            report.add(Fault.DUPLICATE, line)

    def _rows(self, report: ReadReport) -> Iterator[Row]:
        columns = self.options.columns
        if self.in_memory is not None:
            return self.in_memory.rows(self.shape, columns, report)
        if self.source.startswith(HUB_PREFIX):
            return hub_rows(self.source, self.shape, columns, report)
        format = self._format()
        # A character takes 4 bytes at most, and 6 as a JSON escape; other columns stand on the line too.
        limit = max(LINE_LIMIT, min(8 * self.options.max_characters, 2**31 - 1))
        if format == "parquet":
            from nearer.text.parquet import parquet_rows  # needs numpy

            return parquet_rows(self.source, self.shape, columns, report, limit)
        lines = iter_text_lines(self.source, self.options.encoding, report, limit)
        if format == "jsonl":
            return json_rows(lines, self.shape, columns)
        if format == "txt":
            return plain_rows(lines, self.shape)
        table = comma_cells(lines, limit) if format == "csv" else tab_cells(lines)
        return table_rows(table, self.shape, columns, self.source, report)

    def _format(self) -> str:
        """By the name's ending. Plain text that must have columns is read as tab-separated."""
        if self.in_memory is not None:
            return "in memory"
        if self.options.format:
            format = self.options.format
        else:
            suffixes = [suffix.lower().lstrip(".") for suffix in PurePath(self.source).suffixes]
            while suffixes and suffixes[-1] in COMPRESSIONS:
                suffixes.pop()
            format = {"json": "jsonl", "ndjson": "jsonl"}.get(suffixes[-1], suffixes[-1]) if suffixes else "txt"
            if format not in FORMATS:
                format = "txt"
        if format == "txt" and (not self.shape.plain_lines or self.options.columns):
            format = "tsv"
        return format


def _has_nul(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, str) and "\x00" in item for item in value)
    return isinstance(value, str) and "\x00" in value


def _same_counts(sample: DebiasedSample, wanted: tuple[int, int] | None) -> tuple[int, int]:
    """How many positives and negatives a sample has: as many as the first one (`wanted`)."""
    found = len(sample.positives), len(sample.negatives)
    if wanted not in (None, found):
        texts = (f"{positives} positives and {negatives} negatives" for positives, negatives in (found, wanted))
        raise Unusable(Fault.WRONG_FIELDS, ", the first sample has ".join(texts))
    return found


def _options(columns: Sequence[str] | None, **others: Any) -> ReadOptions:
    if isinstance(columns, str):  # one column's name, not its letters
        columns = [columns]
    return ReadOptions(columns=None if columns is None else tuple(columns), **others)


def read_sentences(
    source: Source, *, columns: Sequence[str] | None = None, argument: str = "source", **options: Any
) -> Reading[str]:
    """Sentences, one a record.

    Args:
        source: A file, a data set of the hub (`hf:owner/name`), or records in memory: a list or another iterable, a
            data frame, a data set.
        columns: The names of the columns to read; None finds them by their usual names.
        argument: What messages call records in memory.
        options: See `nearer.text.ReadOptions`: encoding, format, max_characters, duplicates …

    Examples:
        >>> import nearer
        >>> reading = nearer.read_sentences(["It rains.", "", "A man is eating."])
        >>> list(reading)
        ['It rains.', 'A man is eating.']
        >>> reading.report.dropped
        1
    """
    return Reading(source, SENTENCES, _options(columns, **options), argument=argument)


def read_pairs(
    source: Source, *, columns: Sequence[str] | None = None, argument: str = "source", **options: Any
) -> Reading[Pair]:
    """Pairs of sentences, with a score where a third column has one.

    Args:
        source: A file, a data set of the hub (`hf:owner/name`), or records in memory: a list or another iterable, a
            data frame, a data set.
        columns: The names of the columns to read; None finds them by their usual names.
        argument: What messages call records in memory.
        options: See `nearer.text.ReadOptions`: encoding, format, max_characters, duplicates …

    Examples:
        >>> import nearer
        >>> list(nearer.read_pairs([("It rains.", "It is raining.", 5)]))
        [Pair(first='It rains.', second='It is raining.', score=5.0)]
    """
    return Reading(source, PAIRS, _options(columns, **options), argument=argument)


def read_triplets(
    source: Source, *, columns: Sequence[str] | None = None, argument: str = "source", **options: Any
) -> Reading[Triplet]:
    """Anchor, positive, hard negative.

    Args:
        source: A file, a data set of the hub (`hf:owner/name`), or records in memory: a list or another iterable, a
            data frame, a data set.
        columns: The names of the columns to read; None finds them by their usual names.
        argument: What messages call records in memory.
        options: See `nearer.text.ReadOptions`: encoding, format, max_characters, duplicates …

    Examples:
        >>> import nearer
        >>> [triplet] = nearer.read_triplets([("It rains.", "It is raining.", "It does not rain.")])
        >>> triplet.positive
        'It is raining.'
    """
    return Reading(source, TRIPLETS, _options(columns, **options), argument=argument)


def read_debiased(
    source: Source, *, columns: Sequence[str] | None = None, argument: str = "source", **options: Any
) -> Reading[DebiasedSample]:
    """Anchors with lists of mined positives and negatives (jsonl, parquet).

    Args:
        source: A file, a data set of the hub (`hf:owner/name`), or records in memory: a list or another iterable, a
            data frame, a data set.
        columns: The names of the columns to read; None finds them by their usual names.
        argument: What messages call records in memory.
        options: See `nearer.text.ReadOptions`: encoding, format, max_characters, duplicates …

    Examples:
        >>> import nearer
        >>> mined = {"anchor": "It rains.", "positives": ["Rain is falling."], "negatives": ["It reigns."]}
        >>> [sample] = nearer.read_debiased([mined])
        >>> sample.negatives
        ('It reigns.',)
    """
    return Reading(source, DEBIASED, _options(columns, **options), argument=argument)


def read_ranking_lists(
    source: Source, *, columns: Sequence[str] | None = None, argument: str = "source", **options: Any
) -> Reading[RankingList]:
    """Lists in descending similarity to their first sentence.

    Args:
        source: A file, a data set of the hub (`hf:owner/name`), or records in memory: a list or another iterable, a
            data frame, a data set.
        columns: The names of the columns to read; None finds them by their usual names.
        argument: What messages call records in memory.
        options: See `nearer.text.ReadOptions`: encoding, format, max_characters, duplicates …

    Examples:
        >>> import nearer
        >>> [ranked] = nearer.read_ranking_lists([["It rains.", "Rain is falling.", "The street is wet."]])
        >>> len(ranked.sentences)
        3
    """
    return Reading(source, RANKING_LISTS, _options(columns, **options), argument=argument)


def changed(reading: Reading[Any]) -> InputError:
    """A text that is not what it was when it was first read: what was made of it belongs to neither."""
    return InputError(f"{reading.source}: changed while it was read; run it again.")
