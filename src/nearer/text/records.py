"""The shapes of text that the methods learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """Two sentences, with a similarity score where the data has one."""

    first: str
    second: str
    score: float | None = None


class Triplet(NamedTuple):
    """An anchor, a sentence that follows from it, and one that contradicts it."""

    anchor: str
    positive: str
    hard_negative: str


class DebiasedSample(NamedTuple):
    """An anchor with sentences that mean the same in other words, and such that look like it but mean something else.

    All samples of one source have as many positives as its first one, and as many negatives.
    """

    anchor: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


class RankingList(NamedTuple):
    """Sentences in descending similarity to the first one."""

    sentences: tuple[str, ...]


def texts_of(record: Any) -> Sequence[str]:
    """A record's texts in order; one has as many as another of the same source."""
    if isinstance(record, str):
        return (record,)
    if isinstance(record, RankingList):
        return record.sentences
    if isinstance(record, DebiasedSample):
        return (record.anchor, *record.positives, *record.negatives)
    return [value for value in record if isinstance(value, str)]
