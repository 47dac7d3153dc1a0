"""Texts that were longer than a model reads: counted where they are tokenised, so that nothing is cut unseen."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearer.text.tokenise import tokenise

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


def count_cut(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    tokens: Sequence[Sequence[int]],
    max_length: int,
    *counters: CutCounter,
) -> None:
    """sentences: as they were tokenised into `tokens`."""
    full = [sentence for sentence, ids in zip(sentences, tokens, strict=True) if len(ids) >= max_length]
    # one that just fits has no token more if it may have one
    cut = sum(len(ids) > max_length for ids in tokenise(tokenizer, full, max_length + 1)) if full else 0
    for counter in counters:
        counter.add(max_length, len(sentences), cut)
