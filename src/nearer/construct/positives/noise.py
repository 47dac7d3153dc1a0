"""Noise: one or two frequent words inserted, or one or two words masked (DebCSE, §4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from nearer.construct.positives.pieces import has_word, split
from nearer.construct.positives.word_frequencies import WordFrequencies

# A sentence with few possible noises gives up after so many draws for each candidate asked for.
DRAWS = 10


class Noise:
    """Changes a sentence a little, at random; each of the two ways half the time.

    mask: what stands in a masked word's place. None removes the word: right for readers that know no mask, to whom
    "[MASK]" is a word like others that they would translate or copy, while a gap they close. Masking leaves at least
    one word, so a sentence of one word only gets insertions. Spaces between words become single ones.
    """

    def __init__(self, words: WordFrequencies, mask: str | None = None) -> None:
        self.words = words
        self.mask = mask

    def __call__(self, sentence: str, random: Random) -> str:
        """The sentence, which must have a word, with noise; never equal to it."""
        pieces, joint = split(sentence)
        maskable = [place for place, piece in enumerate(pieces) if has_word(piece) and piece.strip() != self.mask]
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
            place = _draw(random, len(pieces) + 1)
            pieces.insert(place, frequent[_draw(random, len(frequent))])

    def _masked(self, pieces: list[str], maskable: list[int], number: int, random: Random) -> list[str]:
        masked = {maskable.pop(_draw(random, len(maskable))) for _ in range(number)}
        if self.mask is None:
            return [piece for place, piece in enumerate(pieces) if place not in masked]
        return [_in_place(piece, self.mask) if place in masked else piece for place, piece in enumerate(pieces)]


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


def _in_place(piece: str, mask: str) -> str:
    """The mask with the spaces that follow the piece where it came with them."""
    return mask + piece[len(piece.rstrip()) :]


def _draw(random: Random, below: int) -> int:
    """0 … below − 1. By `random()`, the only method whose sequence Python promises to keep in later versions."""
    return int(random.random() * below)
