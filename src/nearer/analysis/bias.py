"""What similarity goes by besides meaning: length, shared words, frequent words (DebCSE, Section 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.encoded_task import EncodedTask
from nearer.analysis.geometry import Vectors, unit
from nearer.analysis.words import length_difference, lexical_overlap, word_counts, words
from nearer.errors import InputError
from nearer.evaluation.measures import spearman

Values = NDArray[np.float64]
Measure = Callable[[Sequence[str], Sequence[str]], float]
RANDOM_PAIRS = 50_000
BINS = 8
ROWS_AT_ONCE = 2**13
EQUAL_NORMS = 1e-4  # norms that differ by less are those of a model that normalises its vectors


@dataclass(frozen=True)
class Bin:
    """The mean of something over the items whose feature lies from `low` to `high`, both included."""

    low: float
    high: float
    count: int
    mean: float


@dataclass(frozen=True)
class PairBias:
    """How similarity follows a feature of two texts that says nothing of their meaning; correlations from −1 to 1.

    spearman, bins: cosine of random pairs, which mean different things: 0 and level means without bias.
    partial, excess: over the task's pairs with the gold score held fixed. `excess` is by how much (in shares of
    all ranks) a pair's similarity ranks above what its gold score would have it.
    """

    feature: str
    spearman: float | None
    bins: tuple[Bin, ...]
    partial: float | None
    excess: tuple[Bin, ...]
    random_pairs: int


@dataclass(frozen=True)
class FrequencyBias:
    """How vectors follow the mean log frequency of their sentences' words; correlations from −1 to 1.

    with_cosine: the mean cosine to all other sentences, which orders them as the cosine to their centre does.
    with_norm: the vector's length; None also where the model normalises. bins: mean cosine by mean log frequency.
    """

    with_cosine: float | None
    with_norm: float | None
    bins: tuple[Bin, ...]
    sentences: int
    without_words: int


def length_bias(task: EncodedTask, *, pairs: int = RANDOM_PAIRS, seed: int = 0) -> PairBias:
    """By how many words two sentences differ in length; below 0: sentences of equal length seem alike."""
    return pair_bias(task, "length difference (words)", length_difference, pairs=pairs, seed=seed)


def overlap_bias(task: EncodedTask, *, pairs: int = RANDOM_PAIRS, seed: int = 0) -> PairBias:
    """Which share of their words two sentences have in common; above 0 with gold held fixed: surface counts."""
    return pair_bias(task, "shared words (share)", lexical_overlap, pairs=pairs, seed=seed)


def pair_bias(
    task: EncodedTask, feature: str, measure: Measure, *, pairs: int = RANDOM_PAIRS, seed: int = 0
) -> PairBias:
    """feature: its name; measure: its value from two sentences' words; pairs: how many random ones at most."""
    points = unit(task.vectors, least=2)
    texts = [words(sentence) for sentence in task.sentences]
    one, two = random_pairs(len(points), pairs, seed)
    rows = [slice(start, start + ROWS_AT_ONCE) for start in range(0, len(one), ROWS_AT_ONCE)]
    cosines = np.concatenate([(points[one[r]] * points[two[r]]).sum(dim=-1).numpy() for r in rows])
    random = _measured(measure, texts, one, two)
    own = _measured(measure, texts, task.first, task.second)
    return PairBias(
        feature=feature,
        spearman=spearman(cosines, random),
        bins=binned(random, cosines),
        partial=partial_spearman(task.similarities, own, task.gold),
        excess=binned(own, rank_excess(task.similarities, task.gold)),
        random_pairs=len(one),
    )


def frequency_bias(sentences: Sequence[str], vectors: Vectors, counts: Counter[str] | None = None) -> FrequencyBias:
    """counts: how often words occur in some text; None for that of the sentences themselves."""
    points = unit(vectors, least=2)
    counts = word_counts(sentences) if counts is None else counts
    frequencies = mean_log_frequencies(sentences, counts)
    known = np.flatnonzero(np.isfinite(frequencies))
    centre = points.sum(dim=0)
    others = ((points @ centre - points.square().sum(dim=-1)) / (len(points) - 1)).cpu().numpy()
    norms = np.linalg.norm(np.asarray(vectors, dtype=np.float64), axis=1)
    normalised = np.ptp(norms) <= EQUAL_NORMS * norms.max()
    return FrequencyBias(
        with_cosine=spearman(others[known], frequencies[known]),
        with_norm=None if normalised else spearman(norms[known], frequencies[known]),
        bins=binned(frequencies[known], others[known]),
        sentences=len(sentences),
        without_words=len(sentences) - len(known),
    )


def mean_log_frequencies(sentences: Sequence[str], counts: Counter[str]) -> Values:
    """For each sentence the mean over its words of log((count + 1) / (all + kinds)); NaN for one without words."""
    if not counts.total():
        raise InputError("word frequencies: the text to count them in has no words; name another corpus.")
    whole = np.log(counts.total() + len(counts))
    logs = [[np.log(counts[word] + 1) for word in words(sentence)] for sentence in sentences]
    return np.array([np.mean(some) - whole if some else np.nan for some in logs], dtype=np.float64)


def random_pairs(count: int, pairs: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of different rows, drawn with the seed; all there are if they are no more."""
    if count * (count - 1) // 2 <= pairs:
        first, second = np.triu_indices(count, k=1)
        return first, second
    draw = np.random.default_rng(seed)
    first = draw.integers(0, count, pairs)
    return first, (first + draw.integers(1, count, pairs)) % count


def partial_spearman(values: Values, feature: Values, held: Values) -> float | None:
    """Spearman's correlation of values and feature with a third held fixed; None where it is undefined."""
    plain, one, two = spearman(values, feature), spearman(values, held), spearman(feature, held)
    if plain is None or one is None or two is None or (1 - one**2) * (1 - two**2) < 1e-12:
        return None
    return float(np.clip((plain - one * two) / np.sqrt((1 - one**2) * (1 - two**2)), -1, 1))


def rank_excess(values: Values, held: Values) -> Values:
    """By how much each value's rank exceeds the line of ranks over the other's ranks, in shares of all ranks."""
    from scipy.stats import rankdata

    ranks, given = (rankdata(some) / len(some) for some in (values, held))
    ranks, given = ranks - ranks.mean(), given - given.mean()
    spread = given @ given
    excess: Values = ranks - (ranks @ given / spread if spread else 0.0) * given
    return excess


def binned(feature: Values, values: Values, groups: int = BINS) -> tuple[Bin, ...]:
    """Means of `values` by the feature in groups of about equal size; equal features stay together."""
    if not len(feature):
        return ()
    bounds = np.unique(np.quantile(feature, np.linspace(0, 1, groups + 1)[1:-1], method="inverted_cdf"))
    group = np.searchsorted(bounds, feature)  # a bound belongs to the group below it
    chosen = [group == number for number in range(len(bounds) + 1)]
    return tuple(
        Bin(float(feature[some].min()), float(feature[some].max()), int(some.sum()), float(values[some].mean()))
        for some in chosen
        if some.any()
    )


def _measured(
    measure: Measure, texts: Sequence[Sequence[str]], first: NDArray[np.int64], second: NDArray[np.int64]
) -> Values:
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.array([measure(texts[one], texts[two]) for one, two in pairs], dtype=np.float64)
