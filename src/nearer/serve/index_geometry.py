"""How a model's vectors of an index lie on the sphere, with positive pairs that need no labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.geometry import alignment, anisotropy, uniformity
from nearer.serve.index_sample import SEED, IndexSample

POSITIVES = "each sentence and itself with one word left out, chosen by a seeded draw; sentences of one word have none"


@dataclass(frozen=True)
class IndexGeometry:
    """alignment: None where no sentence has two words. pairs: positive ones; sentences: distinct ones."""

    alignment: float | None
    uniformity: float
    mean_cosine: float
    pairs: int
    sentences: int


def measure(sample: IndexSample, encode: Callable[[list[str]], NDArray[np.float32]]) -> IndexGeometry:
    """encode: vectors of sentences as the index' own were computed. At least two sentences are needed."""
    shortened = without_a_word(sample.texts)
    paired = [place for place, text in enumerate(shortened) if text is not None]
    positives = encode([text for text in shortened if text is not None]) if paired else None
    return IndexGeometry(
        alignment=None if positives is None else alignment(sample.vectors[paired], positives),
        uniformity=uniformity(sample.vectors),
        mean_cosine=anisotropy(sample.vectors),
        pairs=len(paired),
        sentences=len(sample),
    )


def without_a_word(texts: Sequence[str], seed: int = SEED) -> list[str | None]:
    """Each text less one of its words, which whitespace divides; None for a text of one word."""
    random = np.random.default_rng(seed)
    shortened: list[str | None] = []
    for text in texts:
        words = text.split()
        gone = int(random.integers(len(words))) if len(words) > 1 else None
        shortened.append(None if gone is None else " ".join(words[:gone] + words[gone + 1 :]))
    return shortened
