"""Noise: one or two frequent words of the text inserted, or one or two words masked (DebCSE, §4.2).

It works on the pieces of a sentence: words between spaces, or characters where a language writes without spaces.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from nearer.analysis.words import words
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


# Thai and Lao, Burmese, Khmer, kana, Han. Their vowel signs and tone marks belong to the character before.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3\u3099\u309a\uff9e\uff9f"
)
UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
# A space behind a piece belongs to it, so that pieces joined give the sentence again.
UNSPACED_PIECE = re.compile(rf"[{_UNSPACED}][{_MARKS}]*\s*|[^\s{_UNSPACED}]+\s*")
OTHER_WORD = re.compile(rf"[^\W{_UNSPACED}]+")
WORD_CHARACTER = re.compile(r"\w")


def is_unspaced(sentence: str) -> bool:
    """Whether it has more characters of scripts written without spaces between words than words of others."""
    characters = len(UNSPACED_CHARACTER.findall(sentence))
    return characters > 0 and characters > len(OTHER_WORD.findall(sentence))


def split(sentence: str) -> tuple[list[str], str]:
    """The pieces of a sentence, and what joins them again."""
    if is_unspaced(sentence):
        return UNSPACED_PIECE.findall(sentence.strip()), ""
    return sentence.split(), " "


def has_word(piece: str) -> bool:
    """False for punctuation alone."""
    return WORD_CHARACTER.search(piece) is not None


# A sentence with few possible noises gives up after so many draws for each candidate asked for.
DRAWS = 10


class Noise:
    """Changes a sentence a little, at random; each of the two ways half the time.

    mask: what stands instead of a masked word. None removes the word: right for readers that know no mask, to whom
    "[MASK]" is a word like others that they would translate or copy, while a gap they close. Masking leaves at least
    one word, so a sentence of one word only gets insertions. Spaces between words become single ones.
    """

    def __init__(self, words: WordFrequencies, mask: str | None = None) -> None:
        self.words = words
        self.mask = mask

    def __call__(self, sentence: str, random: Random) -> str:
        """The sentence, which must have a word, with noise; never equal to it."""
        pieces, joint = split(sentence)
        maskable = [index for index, piece in enumerate(pieces) if has_word(piece) and piece.strip() != self.mask]
        number = 1 + _draw(random, 2)
        if len(maskable) > 1 and _draw(random, 2):
            pieces = self._masked(pieces, maskable, min(number, len(maskable) - 1), random)
        else:
            self._insert(pieces, number, unspaced=not joint, random=random)
        return joint.join(pieces).strip()

    def identity(self) -> dict[str, str]:
        return {"noise": "insert or mask 1 or 2", "mask": self.mask or "removed", "frequent words": self.words.digest()}

    def _insert(self, pieces: list[str], number: int, unspaced: bool, random: Random) -> None:
        frequent = self.words.fitting(unspaced)
        for _ in range(number):
            index = _draw(random, len(pieces) + 1)
            pieces.insert(index, frequent[_draw(random, len(frequent))])

    def _masked(self, pieces: list[str], maskable: list[int], number: int, random: Random) -> list[str]:
        masked = {maskable.pop(_draw(random, len(maskable))) for _ in range(number)}
        if self.mask is None:
            return [piece for index, piece in enumerate(pieces) if index not in masked]
        return [_masked_piece(piece, self.mask) if index in masked else piece for index, piece in enumerate(pieces)]


class NoiseGenerator:
    """The noised sentences themselves as candidates: no model, offline, thousands of sentences a second."""

    name = "noise"

    def __init__(self, words: WordFrequencies) -> None:
        self.noise = Noise(words)
        self.rejected: Counter[str] = Counter()

    def identity(self) -> dict[str, str]:
        return {"generator": self.name, **self.noise.identity()}

    def candidates(self, sentences: Sequence[str], count: int, seeds: Sequence[int]) -> list[list[str]]:
        return [self._of(sentence, count, seed) for sentence, seed in zip(sentences, seeds, strict=True)]

    def _of(self, sentence: str, count: int, seed: int) -> list[str]:
        if not has_word(sentence):
            return []
        random = Random(seed)
        found: dict[str, None] = {}
        for _ in range(DRAWS * count):
            if len(found) >= count:
                break
            found[self.noise(sentence, random)] = None
        return list(found)


def _masked_piece(piece: str, mask: str) -> str:
    """The mask with the spaces that follow the piece where it came with them."""
    return mask + piece[len(piece.rstrip()) :]


def _draw(random: Random, below: int) -> int:
    """0 … below − 1. By `random()`, the only method whose sequence Python promises to keep in later versions."""
    return int(random.random() * below)
