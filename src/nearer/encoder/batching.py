"""Token ids of many sentences in one array, how they are cut into batches, and how many texts lost their end.

Texts that are longer than a model reads are counted where they are tokenised, so that nothing is cut unseen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearer.errors import SettingError
from nearer.text.tokenise import tokenise_counting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Tokenised:
    """Sentences as token ids, to be encoded as often as one likes.

    ids: the tokens of all sentences, one after another; lengths: how many each has; prompt_length: how many
    leading tokens of each are a prompt's and stay out of the pooling.
    """

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]
    prompt_length: int = 0

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, tokens: Sequence[Sequence[int]], prompt_length: int = 0) -> Tokenised:
        lengths = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
        ids = np.fromiter(chain.from_iterable(tokens), dtype=np.int32, count=int(lengths.sum()))
        return cls(ids, lengths, prompt_length)

    @classmethod
    def joined(cls, parts: Sequence[Tokenised]) -> Tokenised:
        if len(parts) == 1:
            return parts[0]
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, np.concatenate([part.lengths for part in parts]), parts[0].prompt_length)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each sentence's tokens begin."""
        return np.cumsum(self.lengths) - self.lengths

    def select(self, numbers: NDArray[np.int64]) -> Tokenised:
        """These sentences alone, in this order."""
        lengths = self.lengths[numbers]
        return Tokenised(self.ids[ranges(self.starts[numbers], lengths)], lengths, self.prompt_length)


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """`start, start + 1, …` for each start, so many as its count, one behind the other."""
    offsets = np.cumsum(counts) - counts
    found: NDArray[np.int64] = np.arange(int(counts.sum())) + np.repeat(starts - offsets, counts)
    return found


def longest_first(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices by falling length: what does not fit in memory then fails at once."""
    return np.argsort(-lengths, kind="stable")


def cut(
    widths: NDArray[np.int64], batch_tokens: int, batch_size: int | None = None, *, equal_lengths: bool = False
) -> list[int]:
    """How many sentences, which come by falling width, each batch has.

    A batch holds at most `batch_tokens` tokens, counted as its sentences times its widest, and at most `batch_size`
    sentences. One sentence wider than all that passes alone. equal_lengths: none is narrower than another.
    """
    counts, start = [], 0
    while start < len(widths):
        fitting = max(1, batch_tokens // max(1, int(widths[start])))
        last = len(widths)
        if equal_lengths:
            last = int(np.searchsorted(-widths, -widths[start], side="right"))
        counts.append(min(fitting, batch_size or fitting, last - start))
        start += counts[-1]
    return counts


def check_batches(batch_tokens: int | None, batch_size: int | None) -> None:
    for name, value in (("batch_tokens", batch_tokens), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise SettingError(f"{name}: {value} is below 1.")


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

    def add_counted(self, counted: Iterable[CutTexts]) -> None:
        """What other processes encoded for this one."""
        for one in counted:
            self.add(one.max_length, one.texts, one.cut)

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
