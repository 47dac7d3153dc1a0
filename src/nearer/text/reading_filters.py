"""Readings that leave records out: without those held out for a dev task; ranking lists of one length, and their
sentences one by one.

A digest of its content decides whether a record is held out. So runs with other seeds, and resumed runs, hold out the
same records. Training never sees a text of theirs: neither a side of a pair, nor a copy in other case or punctuation.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nearer.errors import SettingError
from nearer.text.faults import Fault
from nearer.text.in_memory import Source
from nearer.text.reading import Reading, ReadOptions
from nearer.text.records import RankingList, plain_words, texts_of
from nearer.text.shapes import RANKING_LISTS, SENTENCES

# By default a tenth of the records, within these bounds
SHARE = 10
FEWEST, MOST = 20, 500
# A smaller text cannot spare any
SMALLEST_TEXT = 100


@dataclass(frozen=True)
class HeldOut:
    """The held-out records in the order of their digests, and the text to train on. A small text has none."""

    records: list[Any]
    rest: Reading[Any]


class WithoutTexts(Reading[Any]):
    """The records of a reading, without those that have one of the given texts."""

    def __init__(self, reading: Reading[Any], texts: frozenset[str]) -> None:
        """texts: as `same_text` writes them."""
        super().__init__(reading.source, reading.shape, reading.options)
        self.reading = reading
        self.texts = texts

    def located(self) -> Iterator[tuple[int, Any]]:
        for line, record in self.reading.located():
            self.report = self.reading.report
            if any(same_text(text) in self.texts for text in texts_of(record)):
                self.report.kept -= 1
                self.report.add(Fault.HELD_OUT, line)
            else:
                yield line, record
        self.report = self.reading.report

    def fingerprint(self) -> str:
        described = [self.reading.fingerprint(), *sorted(self.texts)]
        return hashlib.blake2b("\n".join(described).encode(), digest_size=16).hexdigest()


def hold_out(reading: Reading[Any], count: int | None = None) -> HeldOut:
    """count: records to hold out; by default a tenth, 20 at least and 500 at most, of a text of 100 or more."""
    most = MOST if count is None else count
    chosen: list[tuple[int, int, Any]] = []  # a heap whose first has the largest digest: (−digest, −number, record)
    digests: set[int] = set()
    records = 0
    for record in reading:
        records += 1
        digest = _digest(record)
        if digest in digests or (len(chosen) == most and digest > -chosen[0][0]):
            continue
        digests.add(digest)
        heapq.heappush(chosen, (-digest, -records, record))
        if len(chosen) > most:
            digests.discard(-heapq.heappop(chosen)[0])
    if count is None:
        most = min(MOST, max(FEWEST, records // SHARE)) if records >= SMALLEST_TEXT else 0
    held = [record for _, _, record in sorted(chosen, reverse=True)[: min(most, records // 2)]]
    texts = frozenset(same_text(text) for record in held for text in texts_of(record))
    return HeldOut(held, WithoutTexts(reading, texts) if held else reading)


def same_text(text: str) -> str:
    """The words of a text without case and punctuation: what makes two texts the same."""
    return " ".join(plain_words(text)) or text


def _digest(record: Any) -> int:
    """Of the second text of a pair: several questions to one answer are held out, or not, by that answer."""
    texts = texts_of(record)
    key = same_text(texts[min(1, len(texts) - 1)])
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class EqualLists(Reading[RankingList]):
    """Ranking lists of `length` sentences: the first ones of longer lists; shorter lists are dropped and counted."""

    def __init__(self, source: Source, options: ReadOptions, length: int, *, argument: str = "source") -> None:
        if length < 2:
            raise SettingError(f"list_length: {length} leaves nothing to rank (2 at least).")
        super().__init__(source, RANKING_LISTS, options, argument=argument)
        self.length = length

    def located(self) -> Iterator[tuple[int, RankingList]]:
        for line, ranking in super().located():
            found = len(ranking.sentences)
            if found < self.length:
                self.report.kept -= 1
                self.report.add(Fault.SHORT_LIST, line, f"{found} sentences")
                continue
            if found > self.length:
                self.report.add(Fault.LONG_LIST, line, f"{found} sentences")
            yield line, RankingList(ranking.sentences[: self.length])

    def fingerprint(self) -> str:
        return _extend_digest(super().fingerprint(), f"lists of {self.length}")


class ListedSentences(Reading[str]):
    """The sentences of all records of a reading (lists, triplets, pairs), one record after the other."""

    def __init__(self, lists: Reading[Any]) -> None:
        super().__init__(lists.source, SENTENCES, lists.options)
        self.lists = lists

    def located(self) -> Iterator[tuple[int, str]]:
        rankings = self.lists.located()
        for line, ranking in rankings:
            self.report = self.lists.report
            for sentence in texts_of(ranking):
                yield line, sentence
        self.report = self.lists.report

    def fingerprint(self) -> str:
        return _extend_digest(self.lists.fingerprint(), "sentences of lists")


class ChangedSentences(Reading[str]):
    """The sentences of a reading, each changed by a function. named: what it does, for the fingerprint."""

    def __init__(self, sentences: Reading[str], change: Callable[[str], str], named: str) -> None:
        super().__init__(sentences.source, SENTENCES, sentences.options)
        self.sentences = sentences
        self.change = change
        self.named = named

    def located(self) -> Iterator[tuple[int, str]]:
        for line, sentence in self.sentences.located():
            self.report = self.sentences.report
            yield line, self.change(sentence)
        self.report = self.sentences.report

    def fingerprint(self) -> str:
        return _extend_digest(self.sentences.fingerprint(), f"changed: {self.named}")


def _extend_digest(fingerprint: str, what: str) -> str:
    return hashlib.blake2b(f"{fingerprint} {what}".encode(), digest_size=16).hexdigest()
