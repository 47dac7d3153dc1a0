"""How long texts are, to choose a length at which few of them are cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from nearer.text.tokenise import token_counts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# This many texts are enough to estimate the percentile
SAMPLE = 10_000
WHOLE = 95  # per cent of the texts are not cut
MULTIPLE = 8
SHORTEST = 32


def length_for(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, *, longest: int) -> int:
    """The tokens that hold 95 % of the first texts whole: a multiple of 8, at least 32 and at most `longest`."""
    counts = token_counts(tokenizer, list(itertools.islice(texts, SAMPLE)))
    if not counts:
        return min(SHORTEST, longest)
    wanted = int(np.percentile(counts, WHOLE, method="higher"))
    return min(max(SHORTEST, -(-wanted // MULTIPLE) * MULTIPLE), longest)
