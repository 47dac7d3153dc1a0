"""Inverse propensity weights of candidates, and sampling by them (DebCSE, Eq. 1 to 6).

How alike sentences look comes first: edit distance (Eq. 1) and shared words (Table 1), whatever they mean.

All other functions take one row an anchor, (anchors, candidates), with a mask that is false behind the end of a short
pool. A pool of n candidates has similarities of about 1/n (they are softmaxes over the pool), so the exponents of Eq. 4
and 6 differ by about 1/n as well: as printed, the sampling is nearly uniform over any pool that is not tiny.
`sharpness` multiplies these exponents; 1 is the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.words import lexical_overlap, words
from nearer.errors import SettingError
from nearer.extras import require

Distances = NDArray[np.float64]
EditLevel = Literal["characters", "words"]
EDIT_LEVELS = ("characters", "words")


def check_edit_level(level: str) -> None:
    """Also that the package is there: not only after a corpus was encoded."""
    if level not in EDIT_LEVELS:
        raise SettingError(f"edit_level: {level!r} is not one of {', '.join(EDIT_LEVELS)}.")
    require("rapidfuzz", "construct", "edit distances")


def edit_distances(
    anchors: Sequence[str], candidates: Sequence[Sequence[str]], level: EditLevel = "characters"
) -> Distances:
    """Levenshtein's distance of each anchor to its own candidates, divided by the longer one's length: from 0 to 1.

    (anchors, most candidates); 0 behind the end of a shorter list. Undivided, Eq. 1's softmax would give all weight to
    one candidate, since distances of tens and hundreds stand in an exponent there. level: what is inserted, deleted
    and replaced; words are compared lower-cased and without punctuation.
    """
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    if level == "words":
        anchors, candidates = _letters_for_words(anchors, candidates)
    found = np.zeros((len(anchors), max(map(len, candidates), default=0)), dtype=np.float64)
    for row, (anchor, others) in enumerate(zip(anchors, candidates, strict=True)):
        if len(others):  # one call for all of them, which prepares the anchor once
            found[row, : len(others)] = process.cdist(
                [anchor], others, scorer=Levenshtein.normalized_distance, dtype=np.float64, workers=1
            )[0]
    return found


def overlaps(anchor: str, others: Sequence[str]) -> list[float]:
    """Which share of its words each sentence has in common with the anchor (of the longer one's words)."""
    own = words(anchor)
    return [lexical_overlap(own, words(other)) for other in others]


def _letters_for_words(
    anchors: Sequence[str], candidates: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """The sentences with one character for each word: strings are what edit distances are fast on."""
    alphabet: dict[str, str] = {}
    known: dict[str, str] = {}

    def spelt(sentence: str) -> str:
        found = known.get(sentence)
        if found is None:
            letters = [alphabet.setdefault(word, chr(len(alphabet))) for word in words(sentence)]
            found = known[sentence] = "".join(letters)
        return found

    return [spelt(anchor) for anchor in anchors], [[spelt(other) for other in others] for others in candidates]


Values = NDArray[np.float64]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Seeds = NDArray[np.uint64]

# SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def surface_similarity(distances: Values, mask: Mask) -> Values:
    """S_sur(x_i, x_j) = 1 − e^edit(x_i, x_j) / Σ_k e^edit(x_i, x_k)  (Eq. 1); distances from 0 to 1."""
    return np.where(mask, 1 - _softmax(distances, mask), 0.0)


def semantic_similarity(cosines: Values, mask: Mask) -> Values:
    """S_sem(x_i, x_j) = e^cos(x_i, x_j) / Σ_k e^cos(x_i, x_k)  (Eq. 2)."""
    return _softmax(cosines, mask)


def negative_probabilities(
    distances: Values, cosines: Values, mask: Mask, *, semantic_weight: float = 0.8, sharpness: float = 1.0
) -> Values:
    """P_neg = softmax((1 − λ_n) S_sur + λ_n (1 − S_sem))  (Eq. 3, 4): alike on the surface, different in meaning."""
    surface, semantic = surface_similarity(distances, mask), semantic_similarity(cosines, mask)
    return _softmax(sharpness * ((1 - semantic_weight) * surface + semantic_weight * (1 - semantic)), mask)


def positive_probabilities(
    distances: Values, cosines: Values, mask: Mask, *, semantic_weight: float = 0.8, sharpness: float = 1.0
) -> Values:
    """P_pos = softmax((1 − λ_p) (1 − S_sur) + λ_p S_sem)  (Eq. 5, 6): different on the surface, alike in meaning."""
    surface, semantic = surface_similarity(distances, mask), semantic_similarity(cosines, mask)
    return _softmax(sharpness * ((1 - semantic_weight) * (1 - surface) + semantic_weight * semantic), mask)


def sample_without_replacement(probabilities: Values, count: int, uniforms: Values) -> Numbers:
    """`count` different candidates of each row (anchors, count), −1 where the pool has no more.

    The candidates with the largest log p + Gumbel noise, in falling order, are distributed as if drawn one after the
    other, each by p among those left (Yellott 1977; Kool, van Hoof, Welling 2019: Stochastic Beams and Where to Find
    Them). uniforms: (anchors, candidates) in (0, 1), a number for each candidate.
    """
    with np.errstate(divide="ignore"):
        keys = np.log(probabilities) - np.log(-np.log(uniforms))
    order = np.argsort(-keys, axis=1, kind="stable")[:, :count]
    drawn = np.where(np.take_along_axis(probabilities, order, axis=1) > 0, order, -1)
    return np.pad(drawn, ((0, 0), (0, count - drawn.shape[1])), constant_values=-1)


def sample_with_replacement(probabilities: Values, uniforms: Values) -> Numbers:
    """For each of the uniforms (anchors, count) a candidate, −1 for a row without any; they may repeat."""
    if not probabilities.shape[1]:
        return np.full(uniforms.shape, -1, dtype=np.int64)
    bounds = np.cumsum(probabilities, axis=1)
    wanted = uniforms * bounds[:, -1:]
    chosen = (bounds[:, None, :] <= wanted[:, :, None]).sum(axis=2)  # candidates that end before it
    return np.where(bounds[:, -1:] > 0, chosen, -1)


def seeds_of(seed: int, stream: int, numbers: Numbers) -> Seeds:
    """A seed for each anchor by its number, so that what it gets depends on nothing that is built beside it.

    stream: what the numbers are drawn for; different streams are independent.
    """
    start = _mixed(_mixed(np.array([seed % 2**64], dtype=np.uint64)) + np.uint64(stream))
    return _mixed(start + numbers.astype(np.uint64) * _STEP)


def uniform_numbers(seeds: Seeds, count: int) -> Values:
    """(seeds, count) numbers in (0, 1), the same for the same seed; the first ones do not depend on `count`."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * _STEP
    drawn = _mixed(seeds[:, None] + steps) >> np.uint64(11)
    return (drawn.astype(np.float64) + 0.5) * 2.0**-53


def _mixed(state: Seeds) -> Seeds:
    """SplitMix64's output function; sums and products go round at 2⁶⁴."""
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))


def _softmax(values: Values, mask: Mask) -> Values:
    """Over the candidates of each row; 0 where the mask is false."""
    if not values.shape[1]:
        return np.zeros(values.shape, dtype=np.float64)
    highest = np.max(np.where(mask, values, -np.inf), axis=1, keepdims=True)
    powers = np.where(mask, np.exp(values - np.where(np.isfinite(highest), highest, 0.0)), 0.0)
    total = powers.sum(axis=1, keepdims=True)
    found: Values = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    return found
