"""A corpus whose tiny encoder's cosines spread, and everything that is needed to sample from it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearer.construct.debiased import DebiasedBuilder
from nearer.construct.debiased_sampler import DebiasedSettings
from nearer.construct.positives import WordFrequencies, generator_by_name
from nearer.encoder import Encoder
from nearer.teachers import VectorStore
from nearer.text import read_sentences

WORDS = """the quick brown fox jumps over a lazy dog and rain comes until someone has lunch far away why would anybody
measure sentences by nearness of their meaning""".split()  # noqa: SIM905


def different_sentences(count: int, seed: int = 0) -> list[str]:
    draw, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        found[" ".join(draw.sample(WORDS, draw.randint(2, 9)))] = None
    return list(found)


def equations(edit: list[float], cos: list[float], weight: float, sharpness: float, positive: bool) -> list[float]:
    """Eq. 1 to 6, for one pool, word for word."""
    n = range(len(edit))
    s_sur = [1 - math.exp(edit[j]) / sum(math.exp(edit[k]) for k in n) for j in n]
    s_sem = [math.exp(cos[j]) / sum(math.exp(cos[k]) for k in n) for j in n]
    if positive:
        p = [(1 - weight) * (1 - s_sur[j]) + weight * s_sem[j] for j in n]
    else:
        p = [(1 - weight) * s_sur[j] + weight * (1 - s_sem[j]) for j in n]
    return [math.exp(sharpness * p[j]) / sum(math.exp(sharpness * p[k]) for k in n) for j in n]


class NoCandidates:
    """A generator that knows of some sentences one other wording, of the others none."""

    name = "noise"

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter({"too long": 3})

    def identity(self) -> dict[str, str]:
        return {"generator": "few"}

    def candidates(self, sentences: Sequence[str], count: int, seeds: Sequence[int]) -> list[list[str]]:
        return [[sentence, f"{sentence} again"] if sentence.startswith("the") else [sentence] for sentence in sentences]


def make_builder(folder: Path, corpus: Path, encoder: Encoder, *, few: bool = False, **options: Any) -> DebiasedBuilder:
    """options: of the builder and of the settings."""
    own = {name: options.pop(name) for name in ("limit", "format", "block_size") if name in options}
    reading = read_sentences(corpus)
    generator = NoCandidates() if few else generator_by_name("noise", words=lambda: WordFrequencies.of(reading))
    return DebiasedBuilder(folder, reading, VectorStore(encoder), generator, DebiasedSettings(**options), **own)
