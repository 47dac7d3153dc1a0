"""Labelled queries of one's own: read from files, and matched with the documents that they name.

| form | what it is |
| --- | --- |
| a folder | `queries.jsonl` and `qrels/test.tsv` or `qrels.tsv` (BEIR's); another split: `FOLDER?split=dev` |
| a file (jsonl, tsv, csv, parquet) | `query` (its text), `document` (an id, in JSON also several), optional `gain` |

Documents are known by their ids (`_id` or `id` of a table), or by their file's path below the folder that was given.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np

from nearer.errors import InputError
from nearer.evaluation.retrieval_data import QUERIES, open_judgements, open_table
from nearer.evaluation.retrieval_files import find_judgements, find_texts, list_splits
from nearer.evaluation.strict_reading import filled_text, strictly
from nearer.text.faults import Fault
from nearer.text.shapes import Clean, Field, Shape, Unusable

SHOWN = 3  # ids that a message names
MOST_MISSING = 0.5  # share of the labels whose documents may not be there
FEWEST = 2  # queries, for an interval
Given = str | Path | Mapping[str, Sequence[str] | Mapping[str, float]]


@dataclass(frozen=True)
class Labels:
    """Queries with the documents that answer them.

    Attributes:
        source: Where they came from, for messages.
        queries: Texts; each once.
        gains: Of each query, by a document's id, how good an answer it is (above 0).
        missing: Of each query, the gains of answers that are not among the documents.
        given: All queries that were read, those included that were left out later.
        remarks: What is to be said of them.
    """

    source: str
    queries: list[str]
    gains: list[dict[str, float]]
    missing: list[list[float]]
    given: list[str]
    remarks: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def documents(self) -> set[str]:
        """The ids of all that answer a query."""
        return {id for gains in self.gains for id in gains}

    @cached_property
    def keys(self) -> set[str]:
        """All that were given, as they are compared with text that is learnt from."""
        return set(map(key_of, self.given))

    def draw(self, count: int, random: np.random.Generator) -> Labels:
        """So many of them at most, in their order."""
        if count >= len(self):
            return self
        chosen = sorted(random.permutation(len(self))[:count].tolist())
        return replace(
            self,
            queries=[self.queries[number] for number in chosen],
            gains=[self.gains[number] for number in chosen],
            missing=[self.missing[number] for number in chosen],
        )


def key_of(query: str) -> str:
    """Equal for queries that differ by case, spaces and the mark at their end alone."""
    return " ".join(query.lower().split()).rstrip(" ?.!")


def read_labels(given: Given) -> Labels:
    """All queries that have an answer, before anybody has looked whether the documents are there.

    given: a folder, a file, or in memory `{"query": ["id", …]}` or `{"query": {"id": gain}}`.
    """
    if isinstance(given, Mapping):
        return _collect({query: _in_memory(query, documents) for query, documents in given.items()}, "labels")
    folder, _, asked = (str(given), "", "") if Path(given).exists() else str(given).partition("?")
    path = Path(folder)
    if path.is_dir():
        return _read_folder(path, dict(parse_qsl(asked)).get("split"))
    if not path.is_file():
        raise InputError(f"{given}: no such file or folder.", argument="labels")
    answers: dict[str, dict[str, float]] = {}
    try:
        for _, (query, documents) in strictly(open_table(path, LABELLED)):
            answers.setdefault(query, {}).update(documents)
    except InputError as error:
        fault = str(error).replace(", or name them in order by columns", "")  # these are the documents'
        raise InputError(
            f"{fault} A labelled query has a query, a document (its id) and, if wanted, a gain.", argument="labels"
        ) from None
    return _collect(answers, str(given))


def _in_memory(query: str, documents: object) -> dict[str, float]:
    try:
        return _by_id(documents, None)
    except Unusable as problem:
        raise InputError(f"labels: {query!r}: {problem.fault.label} ({problem.detail}).", argument="labels") from None


def _read_folder(root: Path, split: str | None) -> Labels:
    splits = list_splits(root)
    if split is None:
        split = splits[0] if len(splits) == 1 else "test"
        if splits and split not in splits:
            raise InputError(
                f"{root}: has judgements of {', '.join(splits)}; name one of them: {root}?split={splits[0]}.",
                argument="labels",
            )
    texts = {
        id: text
        for path in find_texts(root, "queries", split).paths
        for _, (id, text) in strictly(open_table(path, QUERIES))
    }
    answers: dict[str, dict[str, float]] = {}
    unknown: list[str] = []
    for path in find_judgements(root, split).paths:
        for _, (query, document, gain) in strictly(open_judgements(path)):
            if texts.get(query):
                answers.setdefault(texts[query], {})[document] = gain
            else:
                unknown.append(query)
    if unknown and not answers:
        raise InputError(
            f"{root}: none of the queries that are judged, such as {unknown[0]!r}, is among its {len(texts):,} "
            "queries with text: the files do not belong together.",
            argument="labels",
        )
    return _collect(answers, str(root))


def _collect(answers: Mapping[str, Mapping[str, float]], source: str) -> Labels:
    useful = {
        query: {id: gain for id, gain in gains.items() if gain > 0}
        for query, gains in answers.items()
        if any(gain > 0 for gain in gains.values())
    }
    if not useful:
        raise InputError(
            f"{source}: no query has a document with a gain above 0; at least {FEWEST} are needed.", argument="labels"
        )
    return Labels(source, list(useful), list(useful.values()), [[] for _ in useful], list(useful))


def match_labels(labels: Labels, documents: Collection[str], copies: Mapping[str, str]) -> Labels:
    """The labels of documents that are there, with a remark on the others.

    A missing document counts as not found, as `nearer evaluate` has it; a query without any that is there is left out.

    Args:
        labels: As they were read.
        documents: The ids of those that are there.
        copies: By the id of each document that was left out as a duplicate, that of the kept one.
    """
    there = set(documents)
    queries, found, missing = [], [], []
    absent: dict[str, None] = {}
    for query, gains in zip(labels.queries, labels.gains, strict=True):
        kept: dict[str, float] = {}
        lost: list[float] = []
        for id, gain in gains.items():
            own = copies.get(id, id)
            if own in there:
                kept[own] = max(gain, kept.get(own, 0.0))
            else:
                absent[id] = None
                lost.append(gain)
        if kept:
            queries.append(query)
            found.append(kept)
            missing.append(lost)
    named = ", ".join(map(repr, list(absent)[:SHOWN])) + ", …" * (len(absent) > SHOWN)
    if not queries or len(absent) > MOST_MISSING * len(labels.documents):
        known = next(iter(documents))
        raise InputError(
            f"{labels.source}: {len(absent):,} of {len(labels.documents):,} labelled documents are not among the "
            f"documents: {named} there, such as {known!r} here. An id is that of a table's column (--columns "
            "id=NAME), or the file's path below the folder that was given.",
            argument="labels",
        )
    if len(queries) < FEWEST:
        raise InputError(
            f"{labels.source}: {len(queries)} query with an answer is too few; {FEWEST} at least.", argument="labels"
        )
    remarks = []
    if absent:
        told = f"{labels.source}: labelled documents that are not among the documents count as not found: {named}"
        told += f" ({len(absent):,} in all)" if len(absent) > SHOWN else ""
        lost_queries = len(labels) - len(queries)
        told += f"; queries without another answer, left out: {lost_queries:,}" if lost_queries else ""
        remarks.append(told)
    return replace(labels, queries=queries, gains=found, missing=missing, remarks=remarks)


class _Labelled(NamedTuple):
    """A line of a file of labels."""

    query: str
    documents: tuple[tuple[str, float], ...]


def _build(values: Sequence[Any], clean: Clean) -> _Labelled:
    return _Labelled(filled_text(values[0], "query"), tuple(_by_id(values[1], values[2]).items()))


def _by_id(documents: object, gain: object) -> dict[str, float]:
    """gain: of all of them; None: 1, unless the documents are a mapping that has their gains."""
    if isinstance(documents, Mapping):
        return {_id(id): _gain(own) for id, own in documents.items()}
    listed = documents if isinstance(documents, list | tuple) else [documents]
    return {_id(id): 1.0 if gain in (None, "") else _gain(gain) for id in listed}


def _id(value: object) -> str:
    return filled_text(str(value) if isinstance(value, int) and not isinstance(value, bool) else value, "document")


def _gain(value: Any) -> float:
    try:
        gain = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        gain = math.nan
    if not math.isfinite(gain):
        raise Unusable(Fault.BAD_SCORE, repr(value)[:20])
    return max(gain, 0.0)


LABELLED = Shape(
    "labelled query",
    "labelled queries",
    (
        Field(("query", "question", "text")),
        Field(("document", "documents", "corpus-id", "corpus_id", "doc_id", "docid", "document_id")),
        Field(("gain", "score", "relevance", "label"), required=False),
    ),
    _build,
)
