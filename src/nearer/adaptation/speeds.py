"""How fast this machine computes with the models of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from nearer.adaptation.models import Models, encode_texts

SAMPLE, SAMPLE_ON_GPU = 32, 1024  # texts that speeds are measured with; few do not fill a GPU


@dataclass(frozen=True)
class Speeds:
    """Seconds: of a passage by the base, of one by all teachers, of a pair by the reranker, of a query by the language
    model (None: there is none). speedup: all but the last are those of so many processes like this one, together."""

    passage: float
    taught: float
    pair: float | None
    query: float | None = None
    speedup: float = 1.0


def measure_speeds(texts: Sequence[str], models: Models, query: float | None = None) -> Speeds:
    """By a few texts from all over the collection, after others: at first, libraries make much ready.

    query: seconds that were measured of a query by a language model.
    """
    sample = SAMPLE_ON_GPU if models.base.device.type == "cuda" else SAMPLE
    step = max(1, len(texts) // (2 * sample))
    chosen, others = texts[::step][0 : 2 * sample : 2], texts[::step][1 : 2 * sample : 2]
    of_encoders = []
    for encoder in (models.base, *models.teachers.values()):
        encode_texts(encoder, others)
        started = time.perf_counter()
        encode_texts(encoder, chosen)
        of_encoders.append((time.perf_counter() - started) / len(chosen))
    pair, cross = None, models.cross
    if cross is not None:
        pairs = [(0, number) for number in range(len(chosen))]
        cross.score(others[:1], others, pairs[: len(others)])
        started = time.perf_counter()
        cross.score([" ".join(chosen[0].split()[:12])], chosen, pairs)
        pair = (time.perf_counter() - started) / len(chosen)
    return Speeds(of_encoders[0], sum(of_encoders[1:]), pair, query)
