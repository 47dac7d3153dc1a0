"""Which set-up is the best on this text: an encoder alone, with BM25 beside it, with a reranker behind it.

Every made test counts alike, those in other words as much as those in the documents' own: a set-up's gain is the mean
over the tests of its NDCG@10 above that of the base. docs/adapt.md has how this rule was found, and how far it is from
the choice that labels would make. What is chosen must be better with certainty (the whole paired bootstrap interval
above 0), and costs no more than it needs to: of set-ups that are nearly as good as the best, the cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.bootstrap import MeanPair, paired_bootstrap
from nearer.search.fusion import LEXICAL, RERANKER, fuse

Values = NDArray[np.float64]

# encoders: as it is; students of scored lists, of these at a higher learning rate, of pairs
BASE, LISTS, FASTER, PAIRS = "base", "lists", "lists-faster", "pairs"
CUT = 10
WEIGHTS = (0.0, 0.3, 1.0)
OF_WORDS = (*WEIGHTS, 3.0)  # a small or raw encoder knows less than BM25
NEARLY = 0.5  # points below the best that a cheaper set-up may have
RESAMPLES = 1000


def discount(ranks: NDArray[np.int64]) -> Values:
    """What an answer at this rank is worth to NDCG@10; 0 for one that is not found (rank 0)."""
    gains: Values = np.where((ranks > 0) & (ranks <= CUT), 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0)
    return gains


class Measured(Protocol):
    """A test: queries with what they may find."""

    def ndcg(self, weights: Mapping[str, float]) -> Values: ...

    def ranks(self, weights: Mapping[str, float]) -> NDArray[np.int64]: ...

    def answer(self, row: int) -> int: ...


@dataclass(frozen=True)
class Candidates:
    """What one test's queries may find, and what each judge says of it.

    Attributes:
        numbers: (queries, candidates), −1 where there are no more.
        answers: (queries,) the number that is right.
        scores: By judge (an encoder's name, `lexical`, `reranker`), (queries, candidates).
    """

    numbers: NDArray[np.int64]
    answers: NDArray[np.int64]
    scores: Mapping[str, NDArray[np.float32]]

    def ranks(self, weights: Mapping[str, float]) -> NDArray[np.int64]:
        """The answer's rank (queries,) from 1, when judges count so much; 0: it is not among the candidates.

        Of equal scores the first candidate leads.
        """
        valid = self.numbers >= 0
        fused = fuse(self.scores, weights, valid)
        right = self.numbers == self.answers[:, None]
        own = np.where(right, fused, -np.inf).max(axis=1, keepdims=True)
        column = right.argmax(axis=1)[:, None]
        ahead = (fused > own) | ((fused == own) & (np.arange(fused.shape[1]) < column))
        ranks: NDArray[np.int64] = np.where(right.any(axis=1), (ahead & valid).sum(axis=1) + 1, 0)
        return ranks

    def ndcg(self, weights: Mapping[str, float]) -> Values:
        """NDCG@10 of each query (queries,)."""
        return discount(self.ranks(weights))

    def answer(self, row: int) -> int:
        """The number of the text that answers this query."""
        return int(self.answers[row])


@dataclass(frozen=True)
class Contender:
    """A set-up. encoder: its name; lexical, reranker: how much they count beside the vectors' 1."""

    encoder: str
    lexical: float = 0.0
    reranker: float = 0.0

    @property
    def name(self) -> str:
        parts = [self.encoder]
        parts += [f"{self.lexical:g} × BM25"] * bool(self.lexical)
        parts += [f"{self.reranker:g} × reranker"] * bool(self.reranker)
        return " + ".join(parts)

    @property
    def weights(self) -> dict[str, float]:
        return {self.encoder: 1.0, LEXICAL: self.lexical, RERANKER: self.reranker}

    @property
    def cost(self) -> tuple[bool, bool]:
        """Comparable: a reranker costs far more than BM25, which costs more than nothing."""
        return bool(self.reranker), bool(self.lexical)


@dataclass(frozen=True)
class Standing:
    """How a contender did. gain: points of NDCG@10 above the base, with its interval; by_test: its NDCG@10 of each."""

    contender: Contender
    gain: float
    low: float
    high: float
    by_test: dict[str, float]

    @property
    def is_better(self) -> bool:
        return self.low > 0


@dataclass(frozen=True)
class Rung:
    """Students compared on their way.

    step: after which; scores: by student, the mean over the tests of its NDCG@10 × 100 alone; kept: who went on.
    """

    step: int
    scores: dict[str, float]
    kept: list[str]

    @property
    def dropped(self) -> list[str]:
        return [name for name in self.scores if name not in self.kept]

    def __str__(self) -> str:
        scores = ", ".join(f"{name} {score:.1f}" for name, score in self.scores.items())
        decided = f"goes on: {', '.join(self.kept)}; dropped: {', '.join(self.dropped)}"
        return f"students after {self.step:,} steps, NDCG@10 of each alone: {scores}; {decided}"


def all_contenders(encoders: Sequence[str], *, reranker: bool, lexical: bool = True) -> list[Contender]:
    return [
        Contender(encoder, by_words, by_reranker)
        for encoder in encoders
        for by_words in (OF_WORDS if lexical else (0.0,))
        for by_reranker in (WEIGHTS if reranker else (0.0,))
    ]


def hold_tournament(
    tests: Mapping[str, Measured], contenders: Sequence[Contender], base: Contender, *, seed: int = 0
) -> list[Standing]:
    """All contenders by falling gain over the base, which is one of them."""
    of_base = {name: 100 * test.ndcg(base.weights) for name, test in tests.items()}
    standings = []
    for contender in contenders:
        figures = {name: 100 * test.ndcg(contender.weights) for name, test in tests.items()}
        pairs = [MeanPair(figures[name], of_base[name], name) for name in tests]
        compared = paired_bootstrap(pairs, resamples=RESAMPLES, seed=seed)
        by_test = {name: float(values.mean()) for name, values in figures.items()}
        standings.append(Standing(contender, compared.difference, compared.low, compared.high, by_test))
    return sorted(standings, key=lambda standing: (-standing.gain, standing.contender.cost))


def choose(standings: Sequence[Standing], base: Contender) -> Standing:
    """The cheapest of those that are nearly as good as the best and better than the base; the base if there is none."""
    of_base = next(standing for standing in standings if standing.contender == base)
    better = [standing for standing in standings if standing.is_better]
    if not better:
        return of_base
    least = max(standing.gain for standing in better) - NEARLY
    return min(
        (standing for standing in better if standing.gain >= least),
        key=lambda standing: (standing.contender.cost, -standing.gain),
    )


def best_fusion(tests: Mapping[str, Measured], judges: Sequence[str], base: str) -> tuple[dict[str, float], float]:
    """Which judges to trust on this text, and how far above the base they stand together (points of NDCG@10).

    Every judge may count 0, 0.3 or 1. Of fusions that are nearly as good, the one of the fewest judges.
    """
    of_base = {name: test.ndcg({base: 1.0}) for name, test in tests.items()}
    found = []
    for weights in _grid(judges):
        gains = [100 * (test.ndcg(weights) - of_base[name]).mean() for name, test in tests.items()]
        found.append((float(np.mean(gains)), weights))
    best = max(gain for gain, _ in found)
    gain, weights = min(
        (each for each in found if each[0] >= best - NEARLY / 2), key=lambda each: (len(each[1]), -each[0])
    )
    return weights, gain


def _grid(judges: Sequence[str]) -> list[dict[str, float]]:
    """Weights by judge, without those of 0; each proportion once."""
    rows: list[dict[str, float]] = [{}]
    for judge in judges:
        rows = [{**row, **({judge: weight} if weight else {})} for row in rows for weight in WEIGHTS]
    return [row for row in rows if row and max(row.values()) == max(WEIGHTS)]
