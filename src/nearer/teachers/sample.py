"""Sentences drawn from a text, each of a kind once, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def sample_places(places: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """`size` of these, in rising order; all of them if there are no more."""
    places = np.sort(places)
    if len(places) <= size:
        return places
    return np.sort(np.random.default_rng(seed).choice(places, size, replace=False))


def sample_sentences(sentences: Iterable[str], size: int, seed: int) -> list[str]:
    """Of a text that is read once: those with the `size` smallest of numbers drawn for each."""
    random = np.random.default_rng(seed)
    seen: set[int] = set()
    kept: list[tuple[float, int, str]] = []
    for place, sentence in enumerate(sentences):
        key = hash(sentence)
        if key in seen:
            continue
        seen.add(key)
        kept.append((random.random(), place, sentence))
        if len(kept) >= 2 * size:
            kept = sorted(kept)[:size]
    return [sentence for _, _, sentence in sorted(sorted(kept)[:size], key=lambda item: item[1])]
