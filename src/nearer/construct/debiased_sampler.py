"""Debiased positives and negatives of a corpus' sentences (DebCSE, §4.1, 4.2): who is sampled, block by block."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearer.construct import propensity
from nearer.construct.negative_pools import GROUP, WIDTH, NegativePools, Pools, PoolSettings
from nearer.construct.positives import PositiveGenerator
from nearer.construct.propensity import EditLevel, check_edit_level, edit_distances, overlaps
from nearer.errors import InputError, SettingError
from nearer.teachers.vector_store import VectorStore
from nearer.text.reading import Reading


@dataclass(frozen=True)
class DistinctSentences:
    """Sentences in the order in which the corpus has them first; `repeated` more of them were equal to one before.

    rows: of each, in the vectors of the store that they were learnt with.
    """

    sentences: list[str]
    rows: NDArray[np.int64]
    repeated: int

    @classmethod
    def learn(cls, reading: Reading[str], store: VectorStore, *, progress: bool = False) -> Self:
        """Vectors that are not known yet are computed."""
        rows = store.rows(reading, progress=progress)
        _, first = np.unique(rows, return_index=True)  # equal sentences share a row, different ones never do
        is_first = np.zeros(len(rows), dtype=bool)
        is_first[first] = True
        sentences, read = [], 0
        for sentence in reading:
            if read < len(rows) and is_first[read]:
                sentences.append(sentence)
            read += 1
        if read != len(rows):
            raise InputError(f"{reading.source}: changed while it was read; run it again.")
        return cls(sentences, rows[is_first], len(rows) - len(sentences))

    def __len__(self) -> int:
        return len(self.sentences)


Numbers = NDArray[np.int64]
# what random numbers are drawn for, see `propensity.seeds_of`
NEGATIVES, POSITIVES, GENERATOR = 1, 2, 3
DECIMALS = 4
NOTHING_BELOW = "no sentence below the range"


@dataclass(frozen=True)
class DebiasedSettings:
    """What the samples follow from, besides corpus, encoder and generator. Defaults are the paper's, where it says.

    positives, negatives: m, so many of each for every anchor. low, high: cosines of the negative pool. pool_size: a
    sample of so many of the pool, since the paper's n is not told; an edit distance is computed for each. scan: how
    many sentences are looked at for it, 0 for all. candidates: positives to choose from; each is generated and encoded,
    which is most of the work. *_semantic_weight: λ_n, λ_p. sharpness: see `propensity`.
    """

    positives: int = 2
    negatives: int = 2
    low: float = 0.25
    high: float = 0.75
    pool_size: int = 64
    scan: int = 20_000
    candidates: int = 4
    negative_semantic_weight: float = 0.8
    positive_semantic_weight: float = 0.8
    sharpness: float = 1.0
    edit_level: EditLevel = "characters"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("positives", "negatives"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}: {getattr(self, name)} is below 1.")
        if self.candidates < self.positives:
            raise SettingError(f"candidates: {self.candidates} are fewer than the {self.positives} positives wanted.")
        if self.pool_size < self.negatives:
            raise SettingError(f"pool_size: {self.pool_size} is smaller than the {self.negatives} negatives wanted.")
        for name in ("negative_semantic_weight", "positive_semantic_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingError(f"{name}: {getattr(self, name):g} is not from 0 to 1.")
        if not 0 <= self.sharpness < float("inf"):
            raise SettingError(f"sharpness: {self.sharpness:g} is not a number from 0 on.")
        check_edit_level(self.edit_level)
        self.pools()

    def pools(self) -> PoolSettings:
        return PoolSettings(self.low, self.high, self.pool_size, self.scan, self.negatives, self.seed)

    def about(self) -> dict[str, Any]:
        """For a header; GROUP and WIDTH decide which sentences a seed puts into a pool."""
        return {**asdict(self), "pool_layout": f"{GROUP} × {WIDTH}"}


@dataclass(frozen=True)
class Drawn:
    """One anchor's positives or negatives, their cosines with it, and how many candidates they were drawn from."""

    texts: list[str]
    cosines: list[float]
    pool: int


class DebiasedSampler:
    """Makes records: {"anchor", "positives", "negatives"} with cosines and shared words, for any anchors asked for.

    A record follows from its anchor's number and the settings; who else is asked for changes nothing but the last bits
    of the encoder's vectors of candidates. seconds: spent so far, by stage.
    """

    def __init__(
        self,
        corpus: DistinctSentences,
        store: VectorStore,
        generator: PositiveGenerator,
        settings: DebiasedSettings,
    ) -> None:
        if len(corpus) <= settings.negatives:
            raise InputError(
                f"the corpus has {len(corpus):,} different sentences; {settings.negatives} negatives for each need at "
                f"least {settings.negatives + 1}."
            )
        self.corpus, self.generator, self.settings = corpus, generator, settings
        self._encoder, self._precision = store.encoder, store.precision
        self._vectors = store.vectors()
        self.pools = NegativePools(self._vectors, corpus.rows, settings.pools(), store.encoder.device)
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def check_range(self, wanted: int) -> None:
        """That not all pools are empty: better told at once than found in a data set of random sentences."""
        anchors = np.unique(np.linspace(0, wanted - 1, min(GROUP, wanted)).astype(np.int64))
        pools = self.pools.probe(anchors)
        if pools.counts.any() or pools.seen is None:
            return
        low, high = pools.seen
        looked = min(self.settings.scan or len(self.corpus), len(self.corpus))
        raise InputError(
            f"range {self.settings.low:g},{self.settings.high:g}: all negative pools are empty; {len(anchors):,} "
            f"anchors looked at {looked:,} sentences each, and their cosines lie from {low:.2f} to {high:.2f}. Name a "
            "range within these (--range), or a trained model: cosines of raw checkpoints are often all high."
        )

    def records(self, numbers: Numbers) -> list[dict[str, Any] | str]:
        """A record for each anchor, or why there is none."""
        anchors = [self.corpus.sentences[number] for number in numbers]
        with self._timed("pools"):
            pools = self.pools.of(numbers)
        negatives = self._negatives(numbers, anchors, pools)
        positives = self._positives(numbers, anchors)
        with self._timed("records"):
            return [
                NOTHING_BELOW if worse is None else _record(anchor, better, worse)
                for anchor, better, worse in zip(anchors, positives, negatives, strict=True)
            ]

    def _negatives(self, numbers: Numbers, anchors: Sequence[str], pools: Pools) -> list[Drawn | None]:
        """None where not even the spare sentences suffice."""
        settings, sentences = self.settings, self.corpus.sentences
        with self._timed("edit distances"):
            width = max(1, int(pools.counts.max()))
            members = pools.members[:, :width]
            candidates = [[sentences[one] for one in row if one >= 0] for row in members.tolist()]
            distances = _widened(edit_distances(anchors, candidates, settings.edit_level), width)
        with self._timed("sampling"):
            cosines = pools.cosines[:, :width].astype(np.float64)
            chances = propensity.negative_probabilities(
                distances,
                cosines,
                members >= 0,
                semantic_weight=settings.negative_semantic_weight,
                sharpness=settings.sharpness,
            )
            drawn = propensity.sample_without_replacement(
                chances, settings.negatives, self._uniforms(NEGATIVES, numbers, width)
            )
            found = np.where(drawn >= 0, np.take_along_axis(members, np.maximum(drawn, 0), axis=1), -1)
            near = np.take_along_axis(cosines, np.maximum(drawn, 0), axis=1)
            # behind a short pool come sentences from below the range, in order
            behind = np.maximum(np.arange(settings.negatives) - pools.counts[:, None], 0)
            found = np.where(drawn >= 0, found, np.take_along_axis(pools.spare, behind, axis=1))
            near = np.where(drawn >= 0, near, np.take_along_axis(pools.spare_cosines, behind, axis=1))
        return [
            None if min(row) < 0 else Drawn([sentences[one] for one in row], cosine, count)
            for row, cosine, count in zip(found.tolist(), near.tolist(), pools.counts.tolist(), strict=True)
        ]

    def _positives(self, numbers: Numbers, anchors: Sequence[str]) -> list[Drawn]:
        settings = self.settings
        with self._timed("candidates"):
            seeds = [int(seed >> np.uint64(1)) for seed in propensity.seeds_of(settings.seed, GENERATOR, numbers)]
            made = self.generator.candidates(anchors, settings.candidates, seeds)
            candidates = [_different(own, anchor) for own, anchor in zip(made, anchors, strict=True)]
        sizes = [len(own) for own in candidates]
        width = max(1, *sizes)
        with self._timed("encoding"):
            cosines = self._cosines(numbers, candidates, width)
        with self._timed("edit distances"):
            distances = _widened(edit_distances(anchors, candidates, settings.edit_level), width)
        with self._timed("sampling"):
            chances = propensity.positive_probabilities(
                distances,
                cosines,
                np.arange(width) < np.array(sizes)[:, None],
                semantic_weight=settings.positive_semantic_weight,
                sharpness=settings.sharpness,
            )
            uniforms = self._uniforms(POSITIVES, numbers, settings.candidates + settings.positives)
            drawn = propensity.sample_without_replacement(chances, settings.positives, uniforms[:, :width])
            again = propensity.sample_with_replacement(chances, uniforms[:, settings.candidates :])
            drawn = np.where(drawn >= 0, drawn, again)
        # without any candidate: the sentence itself, of which dropout makes another view
        near = np.where(drawn >= 0, np.take_along_axis(cosines, np.maximum(drawn, 0), axis=1), 1.0)
        return [
            Drawn([own[one] if one >= 0 else anchor for one in row], cosine, len(own))
            for own, anchor, row, cosine in zip(candidates, anchors, drawn.tolist(), near.tolist(), strict=True)
        ]

    def _cosines(self, numbers: Numbers, candidates: Sequence[Sequence[str]], width: int) -> NDArray[np.float64]:
        """Of each anchor with its own candidates (anchors, width), 0 behind their end."""
        cosines = np.zeros((len(numbers), width))
        there = np.arange(width) < np.array([len(own) for own in candidates])[:, None]
        texts = [text for own in candidates for text in own]
        if texts:
            vectors = self._encoder.encode(texts, normalize=True, precision=self._precision)
            anchors = self._vectors[self.corpus.rows[numbers]].astype(np.float64)
            anchors /= np.linalg.norm(anchors, axis=1, keepdims=True)
            cosines[there] = (anchors[np.nonzero(there)[0]] * vectors).sum(axis=1)
        return cosines

    def _uniforms(self, stream: int, numbers: Numbers, count: int) -> NDArray[np.float64]:
        return propensity.uniform_numbers(propensity.seeds_of(self.settings.seed, stream, numbers), count)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - start


def _record(anchor: str, positives: Drawn, negatives: Drawn) -> dict[str, Any]:
    return {
        "anchor": anchor,
        "positives": positives.texts,
        "negatives": negatives.texts,
        "positive_cosines": _rounded(positives.cosines),
        "positive_overlap": _rounded(overlaps(anchor, positives.texts)),
        "negative_cosines": _rounded(negatives.cosines),
        "negative_overlap": _rounded(overlaps(anchor, negatives.texts)),
        "positive_pool": positives.pool,
        "negative_pool": negatives.pool,
    }


def _different(candidates: Sequence[str], anchor: str) -> list[str]:
    """Each once, and none that is the anchor: that one is no other wording."""
    return [text for text in dict.fromkeys(candidates) if text != anchor]


def _widened(distances: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return np.pad(distances, ((0, 0), (0, width - distances.shape[1])))


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, DECIMALS) + 0.0 for value in values]
