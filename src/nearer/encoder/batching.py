"""Token ids of many sentences in one array, and how they are cut into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from nearer.errors import SettingError


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


def longest_first(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places by falling length: what does not fit in memory then fails at once."""
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
