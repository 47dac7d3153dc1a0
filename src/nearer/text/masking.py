"""BERT's masking: 15 % of the tokens, of which 80 % become the mask, 10 % a random token, 10 % stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearer.errors import SettingError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Masker:
    """Masks token ids; special tokens and padding are never chosen."""

    mask_id: int
    vocabulary: int
    special: tuple[int, ...]
    rate: float = 0.15

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, rate: float) -> Masker:
        if tokenizer.mask_token_id is None:
            raise SettingError("mlm_weight: must be 0 with this model, whose tokenizer has no mask token.")
        return cls(int(tokenizer.mask_token_id), len(tokenizer), tuple(tokenizer.all_special_ids), rate)

    def __call__(self, ids: Ids, random: np.random.Generator) -> tuple[Ids, NDArray[np.bool_]]:
        """The masked ids, and which places have to be predicted; both of the shape of `ids`."""
        chosen = (random.random(ids.shape) < self.rate) & ~np.isin(ids, self.special)
        fate = random.random(ids.shape)
        masked = np.where(chosen & (fate < 0.8), self.mask_id, ids)
        swapped = chosen & (fate >= 0.8) & (fate < 0.9)
        masked[swapped] = random.integers(0, self.vocabulary, int(swapped.sum()))
        return masked, chosen
