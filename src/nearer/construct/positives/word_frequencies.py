"""The most frequent words of a text: what DebCSE inserts as noise (§4.2)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from nearer.analysis.words import words
from nearer.construct.positives.pieces import UNSPACED_CHARACTER, is_unspaced
from nearer.errors import InputError, SettingError

KEPT = 200


@dataclass(frozen=True)
class WordFrequencies:
    """The most frequent words, lower-cased, by falling frequency (equal ones by the alphabet).

    spaced: of sentences with spaces between words; unspaced: single characters of sentences without (Chinese,
    Japanese, Thai, …). One of the two is empty in most texts, never both.
    """

    spaced: tuple[str, ...]
    unspaced: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.spaced and not self.unspaced:
            raise InputError("the text has no words, so none are frequent; noise needs a text of sentences.")

    @classmethod
    def of(cls, sentences: Iterable[str], kept: int = KEPT) -> Self:
        """Counted in one pass; `kept` of each kind are kept. Numbers are no words here."""
        if kept < 1:
            raise SettingError(f"frequent_words: {kept} is below 1.")
        spaced: Counter[str] = Counter()
        unspaced: Counter[str] = Counter()
        for sentence in sentences:
            if is_unspaced(sentence):
                unspaced.update(UNSPACED_CHARACTER.findall(sentence))
            else:
                spaced.update(words(sentence))
        return cls(_most_frequent(spaced, kept), _most_frequent(unspaced, kept))

    def fitting(self, unspaced: bool) -> tuple[str, ...]:
        """Those for a sentence of the kind; the other kind's where the text had none of it."""
        first, second = (self.unspaced, self.spaced) if unspaced else (self.spaced, self.unspaced)
        return first or second

    def digest(self) -> str:
        described = "\n".join([*self.spaced, "", *self.unspaced])
        return hashlib.blake2b(described.encode(), digest_size=16).hexdigest()


def _most_frequent(counts: Counter[str], kept: int) -> tuple[str, ...]:
    lettered = [(word, count) for word, count in counts.items() if any(map(str.isalpha, word))]
    lettered.sort(key=lambda pair: (-pair[1], pair[0]))
    return tuple(word for word, _ in lettered[:kept])
