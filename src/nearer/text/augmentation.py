"""Token ids changed at random: words deleted (the augmentations that SimCSE compares with dropout) or repeated
(ESimCSE), tokens masked.

Masking is BERT's: 15 % of the tokens, of which 80 % become the mask, 10 % a random token, 10 % stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearer.errors import SettingError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


Ids = NDArray[np.int64]
Words = list[Ids]
AUGMENTATIONS = ("none", "crop", "word_deletion", "delete_one_word", "drop_words", "word_repetition", "mlm")
MOST_REPEATED = 10  # tokens, as in ESimCSE's released code


def begins_word(tokenizer: PreTrainedTokenizerBase) -> NDArray[np.bool_]:
    """For each token id, whether it begins a word (WordPiece, byte-level BPE and SentencePiece spellings)."""
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    begins = np.zeros(size, dtype=bool)
    continued = any(token.startswith("##") for token in vocabulary)
    for token, id in vocabulary.items():
        begins[id] = not token.startswith("##") if continued else token.startswith(("Ġ", "▁"))
    return begins


class Augmenter:
    """Deletes words from token ids (SimCSE, Table 1) or repeats tokens (ESimCSE).

    Special tokens at both ends stay, and at least one word.
    """

    def __init__(
        self,
        kind: str,
        rate: float,
        tokenizer: PreTrainedTokenizerBase,
        *,
        around: tuple[int, int] | None = None,
        longest: int | None = None,
        most: Callable[[int], int] | None = None,
    ) -> None:
        """around: how many tokens at either end stay, such as a template's; None: special ones.

        longest: of what is made. most: of so many tokens, how many word_repetition doubles at most.
        """
        if kind not in AUGMENTATIONS:
            raise SettingError(f"augmentation: {kind!r} is not one of {', '.join(AUGMENTATIONS)}.")
        if not 0 <= rate < 1:
            raise SettingError(f"augmentation_rate: {rate} is not in [0, 1).")
        self.kind = kind
        self.around = around
        self.longest = longest
        self.rate = rate
        self.most = most or (lambda tokens: min(MOST_REPEATED, int(rate * tokens)))
        self.begins = begins_word(tokenizer)
        self.special = set(tokenizer.all_special_ids)
        self.changes: dict[str, Callable[[Words, np.random.Generator], Words]] = {
            "crop": self._crop,
            "word_deletion": self._delete,
            "delete_one_word": self._delete_one,
            "drop_words": self._drop,
        }

    def __call__(self, ids: Ids, random: np.random.Generator) -> Ids:
        if self.kind in ("none", "mlm"):  # the second is done within the step
            return ids
        if self.around is not None:
            first, last = self.around[0], len(ids) - self.around[1]
        else:
            first = 1 if len(ids) and int(ids[0]) in self.special else 0
            last = len(ids) - 1 if len(ids) > first and int(ids[-1]) in self.special else len(ids)
        inner = ids[first:last]
        if len(inner) == 0:
            return ids
        if self.kind == "word_repetition":
            room = len(inner) if self.longest is None else max(0, self.longest - len(ids))
            return np.concatenate([ids[:first], self._repeat(inner, room, random), ids[last:]])
        starts = np.flatnonzero(self.begins[inner])
        words = np.split(inner, starts[starts > 0])
        kept = self.changes[self.kind](words, random) if len(words) > 1 else words
        return np.concatenate([ids[:first], *kept, ids[last:]])

    def _crop(self, words: Words, random: np.random.Generator) -> Words:
        """A contiguous span of (1 − rate) of the words."""
        size = max(1, round(len(words) * (1 - self.rate)))
        start = int(random.integers(0, len(words) - size + 1))
        return words[start : start + size]

    def _delete(self, words: Words, random: np.random.Generator) -> Words:
        """Without `rate` of the words."""
        size = max(1, round(len(words) * (1 - self.rate)))
        return [words[number] for number in np.sort(random.permutation(len(words))[:size])]

    def _repeat(self, inner: Ids, room: int, random: np.random.Generator) -> Ids:
        """Some tokens twice (ESimCSE, §3.2): a number drawn from 0 to `rate` of them, so that length tells nothing."""
        count = int(random.integers(0, 1 + self.most(len(inner))))
        count = min(count, room)
        twice = random.permutation(len(inner))[:count]
        times = np.ones(len(inner), dtype=np.int64)
        times[twice] = 2
        return np.repeat(inner, times)

    def _drop(self, words: Words, random: np.random.Generator) -> Words:
        """Each word is left out with probability `rate` (TSDAE); if none is left, one of them at random stays."""
        kept = np.flatnonzero(random.random(len(words)) >= self.rate)
        if not len(kept):
            kept = random.integers(0, len(words), 1)
        return [words[number] for number in kept]

    def _delete_one(self, words: Words, random: np.random.Generator) -> Words:
        gone = int(random.integers(0, len(words)))
        return [word for number, word in enumerate(words) if number != gone]


@dataclass(frozen=True)
class Masker:
    """Masks token ids; special tokens and padding are never chosen."""

    mask_id: int
    vocabulary: int
    special: tuple[int, ...]
    rate: float = 0.15

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, rate: float, *, setting: str = "mlm_weight") -> Masker:
        """setting: the one that asks for it."""
        if tokenizer.mask_token_id is None:
            raise SettingError(f"{setting}: must be 0 with this model, whose tokenizer has no mask token.")
        return cls(int(tokenizer.mask_token_id), len(tokenizer), tuple(tokenizer.all_special_ids), rate)

    def __call__(self, ids: Ids, random: np.random.Generator) -> tuple[Ids, NDArray[np.bool_]]:
        """The masked ids, and which positions have to be predicted; both of the shape of `ids`."""
        drawn, fate = random.random((2, *ids.shape))
        chosen = (drawn < self.rate) & ~self._special_ids.take(ids, mode="clip")
        masked = np.where(chosen & (fate < 0.8), self.mask_id, ids)
        swapped = chosen & (fate >= 0.8) & (fate < 0.9)
        if swapped.any():
            masked[swapped] = random.integers(0, self.vocabulary, int(swapped.sum()))
        return masked, chosen

    @cached_property
    def _special_ids(self) -> NDArray[np.bool_]:
        """Whether each id is special. `np.isin` takes longer for one sentence than all else that is done with it."""
        table = np.zeros(max(self.special, default=0) + 2, dtype=bool)  # its last entry stands for all greater ids
        table[list(self.special)] = True
        return table
