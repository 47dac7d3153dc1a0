"""Coarse edits of a sentence's tokens as further views: shuffled, reversed, some deleted, some inserted again (PCL)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Edit = Literal["shuffle", "reverse", "delete", "insert"]


def edit_tokens(ids: Ids, edit: Edit, rate: float, longest: int, random: np.random.Generator) -> Ids:
    """The edited tokens between the first and the last one, which stay.

    rate: share of them that is deleted or inserted. longest: of what is made; so many fewer are inserted.
    """
    inner = ids[1:-1]
    if len(inner) < 2:
        return ids
    count = round(rate * len(inner))
    made: dict[str, Callable[[], Ids]] = {
        "shuffle": lambda: random.permutation(inner),
        "reverse": lambda: inner[::-1],
        "delete": lambda: inner[np.sort(random.permutation(len(inner))[: max(1, len(inner) - count)])],
        "insert": lambda: _with_inserted(inner, min(count, longest - len(ids)), random),
    }
    return np.concatenate([ids[:1], made[edit](), ids[-1:]])


def _with_inserted(inner: Ids, count: int, random: np.random.Generator) -> Ids:
    """With so many of the sentence's own tokens once more, anywhere."""
    if count < 1:
        return inner
    return np.insert(inner, random.integers(0, len(inner) + 1, count), random.choice(inner, count))
