"""What a generator of positive candidates is (DebCSE, §4.2): sentences in, other wordings of them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol


class PositiveGenerator(Protocol):
    """Makes candidates from which positives are sampled.

    name: as in its specification, for headers and logs; rejected: how many of its outputs were not used, by reason,
    since it was made.
    """

    name: str
    rejected: Counter[str]

    def identity(self) -> dict[str, str]:
        """Everything its candidates depend on: digests of models and of the frequent words, settings."""
        ...

    def candidates(self, sentences: Sequence[str], count: int, seeds: Sequence[int]) -> list[list[str]]:
        """For each sentence up to `count` different candidates in a stable order, none equal to the sentence.

        seeds: one for each sentence, 0 or more. What a sentence gets depends on it and its seed alone, not on the
        others in the call. A sentence without words gets none.
        """
        ...
