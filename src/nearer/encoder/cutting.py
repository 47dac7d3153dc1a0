"""Texts that were longer than a model reads: counted where they are tokenised, so that nothing is cut unseen."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearer.text.tokenise import tokenise_counting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass
class CutTexts:
    """Of `texts` that were encoded, `cut` had more than `max_length` tokens; their ends were left out."""

    max_length: int
    texts: int = 0
    cut: int = 0

    def __str__(self) -> str:
        texts = "text was" if self.texts == 1 else "texts were"
        return f"{self.cut:,} of {self.texts:,} {texts} cut at {self.max_length:,} tokens"


class CutCounter:
    """By maximum length. Several threads may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[int, CutTexts] = {}

    def __getstate__(self) -> dict[int, CutTexts]:
        """Encoders are copied and sent to other processes; a lock cannot be."""
        return self._counts

    def __setstate__(self, counts: dict[int, CutTexts]) -> None:
        self._lock = threading.Lock()
        self._counts = counts

    def add(self, max_length: int, texts: int, cut: int) -> None:
        with self._lock:
            counts = self._counts.setdefault(max_length, CutTexts(max_length))
            counts.texts += texts
            counts.cut += cut

    def found(self, max_length: int) -> CutTexts:
        with self._lock:
            return self._counts.setdefault(max_length, CutTexts(max_length))

    def take(self) -> list[CutTexts]:
        """Those of which some were cut; the count begins anew."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return [one for _, one in sorted(counts.items()) if one.cut]


OF_THIS_PROCESS = CutCounter()  # what the command line tells of


def tokenise_and_count(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], max_length: int, *counters: CutCounter
) -> list[list[int]]:
    """Token ids, cut at `max_length`; how many were cut is added to the counters."""
    tokens, cut = tokenise_counting(tokenizer, sentences, max_length)
    for counter in counters:
        counter.add(max_length, len(sentences), cut)
    return tokens
