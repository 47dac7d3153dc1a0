"""Scored lists: queries, and for each of them passages with a judge's scores. A passage stands in many lists, but is
kept once.

    passages.jsonl  {"_id": "p1", "text": "…", "title": "…"}   a title is optional, and stands before the text
    queries.jsonl   {"_id": "q1", "text": "…"}                 other fields (kind, source) are for people
    lists.jsonl     {"query": "q1", "passages": ["p1", …], "scores": [4.5, …]}

Lists may be of any lengths. A single file with the texts inside, {"query": "…", "passages": ["…"], "scores": [4.5]}, is
read as well; its equal passages become one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError
from nearer.text.faults import Fault, ReadReport
from nearer.text.in_memory import Source
from nearer.text.reading import COMPRESSIONS, Reading, ReadOptions
from nearer.text.scored_list_files import LISTS, PASSAGES, QUERIES
from nearer.text.shapes import SCORED_LISTS, SENTENCES, SHAPES, Clean, Field, Shape, Unusable, scored_values

LAYOUT = f"scored lists are a folder with {PASSAGES}, {QUERIES} and {LISTS}, or one file with the texts inside"

LARGEST_SCORE = float(np.finfo(np.float32).max)


class IdentifiedText(NamedTuple):
    id: str
    text: str


class ScoredIds(NamedTuple):
    """A line of lists.jsonl: a scored list with ids instead of texts."""

    query: str
    passages: tuple[str, ...]
    scores: tuple[float, ...]


def _id(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise Unusable(Fault.WRONG_FIELDS, f"an id expected, {str(value)[:20]!r} found")
    return str(value)


def _identified(values: Sequence[Any], clean: Clean) -> IdentifiedText:
    title, text = (value if value is not None else "" for value in (values[2], values[1]))
    if not isinstance(title, str) or not isinstance(text, str):
        raise Unusable(Fault.WRONG_FIELDS, "text expected")
    return IdentifiedText(_id(values[0]), clean(f"{title} {text}"))


def _scored_ids(values: Sequence[Any], clean: Clean) -> ScoredIds:
    return ScoredIds(_id(values[0]), *scored_values(values[1:], _id))


TEXTS = Shape(
    "text with its id",
    "texts with ids",
    (Field(("_id", "id")), Field(("text",)), Field(("title",), required=False)),
    _identified,
)
SCORED_IDS = Shape("scored list", "scored lists", SCORED_LISTS.fields, _scored_ids)


@dataclass(frozen=True)
class Lists:
    """All lists of a reading, record after record: record r has `passages[starts[r] : starts[r + 1]]`, best first.

    passages: their numbers; scores: as given, falling within a list.
    """

    starts: NDArray[np.int64]
    passages: NDArray[np.int64]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def standardised(self) -> NDArray[np.float64]:
        """The scores with mean 0 and variance 1 within each list."""
        counts, records = self.lengths, np.repeat(np.arange(len(self)), self.lengths)
        means = np.add.reduceat(self.scores, self.starts[:-1]) / counts
        centred = self.scores - means[records]
        variances = np.add.reduceat(centred**2, self.starts[:-1]) / counts
        scaled: NDArray[np.float64] = centred / np.sqrt(variances)[records]
        return scaled


@dataclass
class _Collected:
    """What is known after one way through the files."""

    report: ReadReport
    passages: int
    lines: list[int]
    queries: list[str]
    lists: Lists


class ScoredLists(Reading[str]):
    """The queries of scored lists, a record for each list; `lists` has their passages, `passages()` these texts."""

    def __init__(self, source: Source, options: ReadOptions, *, shortest: int = 2, argument: str = "corpus") -> None:
        """shortest: a list with fewer passages is dropped."""
        super().__init__(source, SCORED_LISTS, options, argument=argument)
        self.shortest = shortest
        self.folder = Path(self.source) if self.in_memory is None and Path(self.source).is_dir() else None

    def located(self) -> Iterator[tuple[int, str]]:
        found = self._collected
        self.report = found.report
        yield from zip(found.lines, found.queries, strict=True)

    def fingerprint(self) -> str:
        described = [reading.fingerprint() for reading in self._files()]
        return _digest("scored lists", str(self.shortest), *described)

    @property
    def origin(self) -> Any:
        """What another reading can read again."""
        return self.in_memory or self.source

    @property
    def lists(self) -> Lists:
        return self._collected.lists

    @property
    def passage_count(self) -> int:
        return self._collected.passages

    def passages(self) -> Passages:
        """Each once, in the order of their numbers."""
        return Passages(self)

    def located_passages(self) -> Iterator[tuple[int, str]]:
        if self.folder is not None:
            yield from ((line, passage.text) for line, passage in self._file(PASSAGES, TEXTS).located())
            return
        seen: set[str] = set()
        for line, record in self._inline().located():
            for text in record.passages:
                if text not in seen:
                    seen.add(text)
                    yield line, text

    def passages_fingerprint(self) -> str:
        reading = self._inline() if self.folder is None else self._file(PASSAGES, TEXTS)
        return _digest("passages", reading.fingerprint())

    @cached_property
    def _collected(self) -> _Collected:
        return self._collect_inline() if self.folder is None else self._collect_files()

    def _collect_inline(self) -> _Collected:
        reading, numbers, sink = self._inline(), dict[str, int](), _Sink(self.shortest)
        for line, record in reading.located():
            members = [numbers.setdefault(text, len(numbers)) for text in record.passages]
            sink.add(reading.report, line, record.query, members, record.scores)
        return sink.collected(reading.report, len(numbers))

    def _collect_files(self) -> _Collected:
        passages, queries = self._file(PASSAGES, TEXTS), self._file(QUERIES, TEXTS)
        numbers = {each.id: number for number, each in enumerate(_each_once(passages))}
        texts = {each.id: each.text for each in _each_once(queries)}
        reading, sink = self._file(LISTS, SCORED_IDS), _Sink(self.shortest)
        for line, record in reading.located():
            query = texts.get(record.query)
            if query is None:
                reading.report.kept -= 1
                reading.report.add(Fault.WRONG_FIELDS, line, f"{QUERIES} has no query {record.query[:20]!r}")
                continue
            members = [numbers.get(id, -1) for id in record.passages]
            if -1 in members:
                missing = record.passages[members.index(-1)]
                reading.report.add(Fault.UNKNOWN_PASSAGE, line, f"{missing[:20]!r}")
            sink.add(reading.report, line, query, members, record.scores)
        for other in (passages.report, queries.report):
            if other.dropped:
                reading.report.note(str(other))
        return sink.collected(reading.report, len(numbers))

    def _files(self) -> list[Reading[Any]]:
        if self.folder is None:
            return [self._inline()]
        return [self._file(PASSAGES, TEXTS), self._file(QUERIES, TEXTS), self._file(LISTS, SCORED_IDS)]

    def _inline(self) -> Reading[Any]:
        return Reading(self.origin, SCORED_LISTS, self.options)

    def _file(self, name: str, shape: Shape) -> Reading[Any]:
        assert self.folder is not None
        endings = ("", *(f".{compression}" for compression in COMPRESSIONS))
        path = next((self.folder / f"{name}{end}" for end in endings if (self.folder / f"{name}{end}").is_file()), None)
        if path is None:
            raise InputError(f"{self.folder}: {name} is missing; {LAYOUT}.")
        # dropping a passage because another id has the same text would break the lists
        return Reading(path, shape, replace(self.options, columns=None, duplicates="keep", strip_contained=False))


def read_list_passages(folder: Path) -> Reading[IdentifiedText]:
    """The passages of a folder of scored lists with their ids, the texts as training reads them."""
    return ScoredLists(folder, ReadOptions())._file(PASSAGES, TEXTS)


def read_as(kind: str, source: Source, options: ReadOptions) -> Reading[Any]:
    """The records of a source, by the name that recipes (data) and commands (--as) have for their kind."""
    return ScoredLists(source, options) if kind == "scored" else Reading(source, SHAPES[kind], options)


class Passages(Reading[str]):
    """The passages of scored lists, each once."""

    def __init__(self, lists: ScoredLists) -> None:
        super().__init__(lists.origin, SENTENCES, lists.options)
        self.lists = lists

    def located(self) -> Iterator[tuple[int, str]]:
        report = self.report = ReadReport(self.source)
        for line, text in self.lists.located_passages():
            report.read += 1
            report.kept += 1
            yield line, text

    def fingerprint(self) -> str:
        return self.lists.passages_fingerprint()


class QueriesAndPassages(Reading[str]):
    """All texts of scored lists: the query of each record, then the passages."""

    def __init__(self, lists: ScoredLists) -> None:
        super().__init__(lists.origin, SENTENCES, lists.options)
        self.lists = lists

    def located(self) -> Iterator[tuple[int, str]]:
        report = self.report = ReadReport(self.source)
        for texts in (self.lists, self.lists.passages()):
            for line, text in texts.located():
                report.read += 1
                report.kept += 1
                yield line, text

    def fingerprint(self) -> str:
        return _digest("queries and passages", self.lists.fingerprint())


class _Sink:
    """Lists that can be used, one after the other; what cannot is taken off the report's count."""

    def __init__(self, shortest: int) -> None:
        self.shortest = shortest
        self.lines: list[int] = []
        self.queries: list[str] = []
        self.passages: list[NDArray[np.int64]] = []
        self.scores: list[NDArray[np.float64]] = []

    def add(self, report: ReadReport, line: int, query: str, passages: Sequence[int], given: Sequence[float]) -> None:
        """passages: their numbers, −1 for one that is not there."""
        members, scores = np.array(passages, dtype=np.int64), np.array(given, dtype=np.float64)
        order = np.argsort(-scores, kind="stable")
        members, scores = members[order], scores[order]
        first = np.zeros(len(members), dtype=bool)
        first[np.unique(members, return_index=True)[1]] = True
        known = members >= 0
        if (known & ~first).any():
            report.add(Fault.REPEATED_PASSAGE, line)
        members, scores = members[known & first], scores[known & first]
        fault = None
        if len(members) < self.shortest:
            fault = (Fault.FEW_PASSAGES, f"{len(members)} passages")
        elif float(np.abs(scores).max()) > LARGEST_SCORE:
            fault = (Fault.BAD_SCORE, f"{scores[np.abs(scores).argmax()]:g}")
        elif scores[0] == scores[-1]:
            fault = (Fault.EQUAL_SCORES, f"{scores[0]:g}")
        if fault is not None:
            report.kept -= 1
            report.add(fault[0], line, fault[1])
            return
        self.lines.append(line)
        self.queries.append(query)
        self.passages.append(members)
        self.scores.append(scores)

    def collected(self, report: ReadReport, passages: int) -> _Collected:
        report.check_kept()
        starts = np.concatenate([[0], np.cumsum([len(members) for members in self.passages], dtype=np.int64)])
        lists = Lists(starts, np.concatenate(self.passages), np.concatenate(self.scores))
        return _Collected(report, passages, self.lines, self.queries, lists)


def _each_once(reading: Reading[IdentifiedText]) -> Iterator[IdentifiedText]:
    """Two texts with one id would leave open which of them a list means."""
    seen: set[str] = set()
    for line, each in reading.located():
        if each.id in seen:
            unit = reading.report.unit
            raise InputError(f"{reading.source}: {unit} {line} has the _id {each.id!r} again; each text needs its own.")
        seen.add(each.id)
        yield each
    reading.report.check_kept()


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
