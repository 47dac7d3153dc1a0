"""Sentences of a corpus that a vector store lacks: which they are, and that they are still what they were."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearer.text.reading import Reading, changed

Keys = NDArray[np.uint64]  # (sentences, 2)
KEY_BYTES = 16


def sentence_keys(sentences: Iterable[str]) -> Keys:
    """A digest of each sentence (sentences, 2)."""
    keys = bytearray()  # grows by 16 bytes a sentence; a list to be joined would take four times that
    for sentence in sentences:
        keys += _key(sentence)
    return np.frombuffer(keys, dtype=np.uint64).reshape(-1, 2)


@dataclass(frozen=True)
class MissingSentences:
    """keys: of all sentences of the corpus when it was first read; marked: those that are wanted."""

    reading: Reading[str]
    keys: Keys
    marked: NDArray[np.bool_]

    @property
    def wanted(self) -> Keys:
        return self.keys[self.marked]

    def __iter__(self) -> Iterator[str]:
        """The marked sentences, read again; no other may be taken for one of them."""
        for index, sentence in marked_sentences(self.reading, self.marked):
            if _key(sentence) != self.keys[index].tobytes():
                raise changed(self.reading)
            yield sentence


def marked_sentences(reading: Iterable[str], marked: NDArray[np.bool_]) -> Iterator[tuple[int, str]]:
    """With their indices among all sentences, from 0."""
    for index, (sentence, wanted) in enumerate(zip(reading, marked, strict=False)):
        if wanted:
            yield index, sentence


def _key(sentence: str) -> bytes:
    return hashlib.blake2b(sentence.encode(), digest_size=KEY_BYTES).digest()
