"""Ranking lists made of one length, and their sentences one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from nearer.errors import SettingError
from nearer.text.faults import Fault
from nearer.text.in_memory import Source
from nearer.text.reading import Reading, ReadOptions
from nearer.text.records import RankingList
from nearer.text.shapes import RANKING_LISTS, SENTENCES


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
        return _digest(super().fingerprint(), f"lists of {self.length}")


class ListedSentences(Reading[str]):
    """The sentences of all lists of a reading, one list after the other."""

    def __init__(self, lists: Reading[RankingList]) -> None:
        super().__init__(lists.source, SENTENCES, lists.options)
        self.lists = lists

    def located(self) -> Iterator[tuple[int, str]]:
        rankings = self.lists.located()
        for line, ranking in rankings:
            self.report = self.lists.report
            for sentence in ranking.sentences:
                yield line, sentence
        self.report = self.lists.report

    def fingerprint(self) -> str:
        return _digest(self.lists.fingerprint(), "sentences of lists")


def _digest(fingerprint: str, what: str) -> str:
    return hashlib.blake2b(f"{fingerprint} {what}".encode(), digest_size=16).hexdigest()
