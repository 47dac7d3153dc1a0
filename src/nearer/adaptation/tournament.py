"""Which set-up is the best on this text: an encoder alone, with BM25 beside it, with a reranker behind it.

A set-up's gain is the weighted mean over the tests of its NDCG@10 above that of the base. Tests are not equally hard:
in one, all set-ups lie within a point, in another BM25 alone moves seven. So a point counts by how far the base's own
set-ups lie apart in its test (`weigh_tests`). docs/adapt.md has how this rule was found, and how far it is from the
choice that labels would make. What is chosen must be better with certainty (the whole paired bootstrap interval above
0), and costs no more than it needs to: of set-ups that are nearly as good as the best, the cheapest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.bootstrap import Comparison, MeanPair, paired_bootstrap
from nearer.search.fusion import LEXICAL, RERANKER, fuse

Values = NDArray[np.float64]

# encoders: as it is; students of scored lists, of these at a higher learning rate, of pairs; one trained again
BASE, LISTS, FASTER, PAIRS, REFIT = "base", "lists", "lists-faster", "pairs", "refit"
CUT = 10
WEIGHTS = (0.0, 0.3, 1.0)
OF_WORDS = (*WEIGHTS, 3.0)  # a small or raw encoder knows less than BM25
# what a cheaper set-up may lack of the best one's gain: points, and never more than this share of it
NEARLY, NEARLY_SHARE = 0.5, 0.2
FAR_BELOW = 0.5  # of the best teacher's NDCG@10
# ends the name of a test with the queries of a kind that share the fewest words with their answers
OTHER_WORDS = "in other words"
JUDGED = "as judged"  # ends the name of a test whose answers are what the trusted judges put first
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

    def best(self, weights: Mapping[str, float]) -> NDArray[np.int64]:
        """The number (queries,) of what comes first when judges count so much."""
        valid = self.numbers >= 0
        first = np.where(valid, fuse(self.scores, weights, valid), -np.inf).argmax(axis=1)
        best: NDArray[np.int64] = self.numbers[np.arange(len(first)), first]
        return best


@dataclass(frozen=True)
class Contender:
    """A set-up. encoder: its name; lexical, reranker: how much they count beside the vectors' 1; teacher: whether the
    encoder is a teacher, which usually costs more than the base with each query and each document."""

    encoder: str
    lexical: float = 0.0
    reranker: float = 0.0
    teacher: bool = False

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
    def is_alone(self) -> bool:
        """Whether it is an encoder with nothing beside it."""
        return not self.reranker and not self.lexical

    @property
    def cost(self) -> tuple[bool, bool, bool]:
        """Comparable: a reranker costs more than a teacher, and BM25 hardly more than nothing."""
        return bool(self.reranker), self.teacher, bool(self.lexical)


@dataclass(frozen=True)
class Standing:
    """How a contender did.

    gain: points of NDCG@10 above the base, with its interval; by_test: its NDCG@10 of each. refuted: tests with known
    answers say with certainty that it is worse, whatever those say whose answers are judged.
    """

    contender: Contender
    gain: float
    low: float
    high: float
    by_test: dict[str, float]
    refuted: bool = False

    @property
    def is_better(self) -> bool:
        return self.low > 0 and not self.refuted


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


def all_contenders(
    encoders: Sequence[str], *, reranker: bool, lexical: bool = True, teachers: Collection[str] = ()
) -> list[Contender]:
    return [
        Contender(encoder, by_words, by_reranker, teacher=encoder in teachers)
        for encoder in encoders
        for by_words in (OF_WORDS if lexical else (0.0,))
        for by_reranker in (WEIGHTS if reranker else (0.0,))
    ]


def weigh_tests(tests: Mapping[str, Measured], base: Contender, *, reranker: bool) -> dict[str, float]:
    """How much a point counts in each test. All weights add up to 1, those of tests as judged (if there are any) to ½.

    A weight is one over the square root of the test's spread: the standard deviation of the base's own set-ups, or the
    standard error of their gains, whichever is larger. Without the root, every test would move set-ups equally far.
    Then a test that nobody can solve would count as much as one in which BM25 finds what a raw base does not. Only
    set-ups of the base decide, so a weight does not depend on the students. A test in which all set-ups are alike has
    none.

    A test also counts by the number of queries in the largest test of its kind, since chance decides what few say. Its
    own number would not do: tests in other words have fewer queries by nature.
    """
    others = [each for each in all_contenders([base.encoder], reranker=reranker) if each != base]
    counts = {}
    of_bases = {name: test.ndcg(base.weights) for name, test in tests.items()}
    queries: dict[str, int] = {}
    for name, of_base in of_bases.items():
        queries[_kind(name)] = max(queries.get(_kind(name), 0), len(of_base))
    for name, test in tests.items():
        of_base = of_bases[name]
        gains = np.array([test.ndcg(each.weights) - of_base for each in others])
        apart = float(np.std([0.0, *gains.mean(axis=1)]))
        chance = float(np.sqrt(np.mean(gains.var(axis=1)) / gains.shape[1]))
        spread = max(apart, chance)
        counts[name] = queries[_kind(name)] * spread**-0.5 if spread > 0 else 0.0
    groups = [[name for name in tests if name.endswith(JUDGED) == judged] for judged in (False, True)]
    said = [group for group in groups if sum(counts[name] for name in group) > 0]
    if not said:
        return dict.fromkeys(tests, 1 / len(tests))
    weights = dict.fromkeys(tests, 0.0)
    for group in said:
        total = sum(counts[name] for name in group)
        weights |= {name: counts[name] / total / len(said) for name in group}
    return weights


def _kind(test: str) -> str:
    """Titles, questions …: a name without what it says about overlap and answers."""
    return test.removesuffix(f" {JUDGED}").removesuffix(f" {OTHER_WORDS}")


def hold_tournament(
    tests: Mapping[str, Measured],
    contenders: Sequence[Contender],
    base: Contender,
    *,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
) -> list[Standing]:
    """All contenders by falling gain over the base, which is one of them. weights: of the tests; None: all alike."""
    given = weights or dict.fromkeys(tests, 1.0)
    counted = {name: weight for name, weight in given.items() if weight}
    of_base = {name: 100 * test.ndcg(base.weights) for name, test in tests.items()}
    known = {name: weight for name, weight in counted.items() if not name.endswith(JUDGED)}
    standings = []
    for contender in contenders:
        figures = {name: 100 * test.ndcg(contender.weights) for name, test in tests.items()}
        compared = _compare(figures, of_base, counted, seed)
        refuted = 0 < len(known) < len(counted) and _compare(figures, of_base, known, seed).high < 0
        by_test = {name: float(values.mean()) for name, values in figures.items()}
        standings.append(Standing(contender, compared.difference, compared.low, compared.high, by_test, refuted))
    return sorted(standings, key=lambda standing: (-standing.gain, standing.contender.cost))


def _compare(
    figures: Mapping[str, Values], of_base: Mapping[str, Values], weights: Mapping[str, float], seed: int
) -> Comparison:
    """The weighted means over the tests that have a weight."""
    mean = sum(weights.values()) / len(weights)
    times = {name: weight / mean for name, weight in weights.items()}  # the bootstrap takes the plain mean of tests
    pairs = [MeanPair(times[name] * figures[name], times[name] * of_base[name], name) for name in weights]
    return paired_bootstrap(pairs, resamples=RESAMPLES, seed=seed)


def choose(standings: Sequence[Standing], base: Contender) -> Standing:
    """The cheapest of those that are nearly as good as the best and better than the base; the base if there is none."""
    of_base = next(standing for standing in standings if standing.contender == base)
    better = [standing for standing in standings if standing.is_better]
    if not better:
        return of_base
    least = least_gain(max(standing.gain for standing in better))
    return min(
        (standing for standing in better if standing.gain >= least),
        key=lambda standing: (standing.contender.cost, -standing.gain),
    )


def least_gain(best: float) -> float:
    """The least gain that counts as nearly as good as the best one."""
    return best - min(NEARLY, NEARLY_SHARE * max(0.0, best))


def best_fusion(
    tests: Mapping[str, Measured], judges: Sequence[str], base: str, weights: Mapping[str, float] | None = None
) -> tuple[dict[str, float], float]:
    """Which judges to trust on this text, and how far above the base they stand together (mean points of NDCG@10).

    Every judge may count 0, 0.3 or 1. Of fusions that are nearly as good, the one of the fewest judges. weights: of the
    tests; None: all alike.
    """
    of_base = {name: test.ndcg({base: 1.0}) for name, test in tests.items()}
    counted = np.array([1 / len(tests) if weights is None else weights[name] for name in tests])
    found = []
    for fused in _grid(judges):
        gains = np.array([100 * (test.ndcg(fused) - of_base[name]).mean() for name, test in tests.items()])
        found.append((float(gains @ counted), float(gains.mean()), fused))
    best = max(gain for gain, _, _ in found)
    least = (best + least_gain(best)) / 2  # half as lenient: judges are asked before training only, so all may be dear
    _, above, trusted = min((each for each in found if each[0] >= least), key=lambda each: (len(each[2]), -each[0]))
    return trusted, above


def is_far_below(
    tests: Mapping[str, Measured], base: str, teachers: Sequence[str], weights: Mapping[str, float]
) -> bool:
    """Whether the base, alone, has less than half of the best teacher's NDCG@10. weights: of the tests.

    Such a base cannot search yet. Against BM25 or all judges together this could not be told: on hard tests they may
    stand as far above a base that can.
    """

    def alone(name: str) -> float:
        return sum(weights[test] * float(found.ndcg({name: 1.0}).mean()) for test, found in tests.items())

    return alone(base) < FAR_BELOW * max((alone(teacher) for teacher in teachers), default=0.0)


def _grid(judges: Sequence[str]) -> list[dict[str, float]]:
    """Weights by judge, without those of 0; each proportion once."""
    rows: list[dict[str, float]] = [{}]
    for judge in judges:
        rows = [{**row, **({judge: weight} if weight else {})} for row in rows for weight in WEIGHTS]
    return [row for row in rows if row and max(row.values()) == max(WEIGHTS)]
