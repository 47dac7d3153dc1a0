"""Where to cut a similarity: from which score on two texts count as the same.

`threshold_of_pairs` asks labelled pairs: the cut with the best F1, or the lowest that is as precise as wanted.
`threshold_of_corpus` needs no labels: it looks how often two texts of a corpus that were drawn at random reach a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError
from nearer.evaluation.task import Scorer

Values = NDArray[np.float64]
FEWEST_PAIRS = 10
RANDOM_PAIRS = 200_000
# Of a corpus: enough for the share of random pairs, and all of them can be compared with all
MOST_SENTENCES = 5_000
ROWS_AT_ONCE = 512
RESAMPLED_AT_ONCE = 2**22
LEVELS = tuple(round(0.30 + 0.05 * number, 2) for number in range(14))  # 0.30 … 0.95


@dataclass(frozen=True)
class Interval:
    """A value, and where it lies in 95 % of resamples (or as many as were asked for)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PairThreshold:
    """The cut from labelled pairs; a pair counts as the same if its score is `cut` or above.

    wanted: the precision that was asked for; None: the best F1 was. pairs, same: how many there are, and how many of
    them are labelled the same.
    """

    cut: Interval
    precision: Interval
    recall: Interval
    f1: Interval
    pairs: int
    same: int
    wanted: float | None
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Level:
    """false_positives: share of random pairs at `cut` or above; with_neighbour: of sentences with another there."""

    cut: float
    false_positives: float
    with_neighbour: float


@dataclass(frozen=True)
class CorpusThreshold:
    """The lowest cut that at most `wanted` of the random pairs reach, and the same for other cuts."""

    chosen: Level
    levels: tuple[Level, ...]
    wanted: float
    sentences: int
    random_pairs: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def threshold_of_pairs(
    scores: Sequence[float] | Values,
    labels: Sequence[bool] | NDArray[Any],
    *,
    precision: float | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairThreshold:
    """The cut for pairs with these scores. labels: whether each is the same.

    precision: take the lowest cut that has it, instead of the one with the best F1.
    """
    given, same = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    if given.shape != same.shape or given.ndim != 1:
        raise InputError(f"labels: {same.shape} given for scores {given.shape}; one for each is needed.")
    if len(given) < FEWEST_PAIRS:
        raise InputError(f"pairs: {len(given)} given, at least {FEWEST_PAIRS} are needed.")
    if not same.any() or same.all():
        raise InputError(f"pairs: all {len(same):,} have one label; pairs that are the same and others are needed.")
    if not np.isfinite(given).all():
        raise InputError("scores: some are not finite numbers.")
    if precision is not None and not 0 < precision <= 1:
        raise SettingError(f"precision: {precision} is not above 0 and at most 1.")
    order = np.argsort(-given, kind="stable")
    cuts = _Cuts(given[order], same[order], precision)
    [chosen] = cuts.choose(np.ones((1, len(given))))
    if chosen < 0:
        best = float(cuts.figures(np.ones((1, len(given))))[0][0][cuts.ends].max())
        raise InputError(f"precision: no cut reaches {precision:g}; the most precise has {best:.3f}.")
    figures = [float(figure[0, chosen]) for figure in cuts.figures(np.ones((1, len(given))))]
    drawn: list[Values] = []
    draw = np.random.default_rng(seed)
    at_once = max(1, RESAMPLED_AT_ONCE // len(given))
    for start in range(0, resamples, at_once):
        count = min(at_once, resamples - start)
        times = draw.multinomial(len(given), np.full(len(given), 1 / len(given)), size=count).astype(np.float64)
        found = cuts.choose(times)
        at_chosen = [figure[:, chosen] for figure in cuts.figures(times)]
        # a resample in which no cut is precise enough, or none of a kind was drawn, says nothing
        there = (found >= 0) & np.isfinite(np.stack(at_chosen)).all(axis=0)
        drawn.append(np.stack([cuts.values[found], *at_chosen])[:, there])
    resampled = np.concatenate(drawn, axis=1)
    tail = 50 * (1 - confidence)
    whole = [float(cuts.values[chosen]), *figures]
    if resampled.shape[1]:
        lows, highs = np.percentile(resampled, [tail, 100 - tail], axis=1)
    else:
        lows, highs = np.array(whole), np.array(whole)
    cut, exact, recall, f1 = (Interval(*each) for each in zip(whole, lows.tolist(), highs.tolist(), strict=True))
    return PairThreshold(cut, exact, recall, f1, len(given), int(same.sum()), precision, confidence)


class _Cuts:
    """Cuts of scores that fall: cut i takes the first i + 1 pairs. Only those behind which a lower score begins."""

    def __init__(self, scores: Values, same: NDArray[np.bool_], precision: float | None) -> None:
        self._same = same
        self._precision = precision
        lower = np.append(scores[1:], scores[-1] - 1e-6)
        self.ends = np.flatnonzero(scores != lower)
        # between two scores, so that neither rounding nor a repeated encoding moves a pair to the other side
        self.values = np.where(scores != lower, (scores + lower) / 2, scores)
        self.values[-1] = scores[-1]

    def figures(self, times: Values) -> tuple[Values, Values, Values]:
        """Precision, recall and F1 (resamples, pairs) at each cut. times: how often each pair was drawn."""
        taken, right = np.cumsum(times, axis=1), np.cumsum(times * self._same, axis=1)
        all_same = right[:, -1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            return right / taken, right / all_same, 2 * right / (taken + all_same)

    def choose(self, times: Values) -> NDArray[np.int64]:
        """The best cut (resamples,); −1 where there is none."""
        precision, recall, f1 = (np.nan_to_num(figure[:, self.ends], nan=-1.0) for figure in self.figures(times))
        if self._precision is None:
            return np.where(f1.max(axis=1) > 0, self.ends[f1.argmax(axis=1)], -1)
        worth = np.where(precision >= self._precision, recall, -1.0)
        last = worth.shape[1] - 1 - worth[:, ::-1].argmax(axis=1)  # the lowest of equally good ones
        return np.where(worth.max(axis=1) > 0, self.ends[last], -1)


def threshold_of_corpus(
    model: Scorer,
    sentences: Sequence[str],
    *,
    false_positives: float = 0.001,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
) -> CorpusThreshold:
    """The lowest cut that at most a share of random pairs of these sentences reach.

    Different sentences of a corpus seldom say the same, so random pairs stand for pairs that do not. Beside it: how
    many sentences have another at the cut or above, which are duplicates, near ones, or what the model takes for them.
    """
    if not 0 < false_positives < 1:
        raise SettingError(f"false_positives: {false_positives} is not between 0 and 1.")
    unique = list(dict.fromkeys(sentences))
    if len(unique) < FEWEST_PAIRS:
        raise InputError(f"corpus: {len(unique)} different sentences, at least {FEWEST_PAIRS} are needed.")
    draw = np.random.default_rng(seed)
    if len(unique) > MOST_SENTENCES:
        chosen = np.sort(draw.choice(len(unique), MOST_SENTENCES, replace=False))
        unique = [unique[number] for number in chosen.tolist()]
    vectors = model.encode(unique, batch_size=batch_size, progress=progress)
    first = draw.integers(0, len(unique), RANDOM_PAIRS)
    second = (first + draw.integers(1, len(unique), RANDOM_PAIRS)) % len(unique)  # never itself
    random = np.concatenate(
        [
            model.pair_scores(vectors[first[part]], vectors[second[part]])
            for part in (slice(start, start + ROWS_AT_ONCE * 16) for start in range(0, RANDOM_PAIRS, ROWS_AT_ONCE * 16))
        ]
    )
    nearest = np.empty(len(unique))
    for start in range(0, len(unique), ROWS_AT_ONCE):
        scores = np.array(model.score_matrix(vectors[start : start + ROWS_AT_ONCE], vectors), dtype=np.float64)
        rows = np.arange(len(scores))
        scores[rows, start + rows] = -np.inf
        nearest[start : start + ROWS_AT_ONCE] = scores.max(axis=1)

    def look(cut: float) -> Level:
        return Level(cut, float((random >= cut).mean()), float((nearest >= cut).mean()))

    ordered = np.sort(random)[::-1]
    allowed = int(false_positives * len(ordered))
    lowest = float(np.nextafter(ordered[allowed], np.inf)) if allowed < len(ordered) else float(ordered[-1])
    return CorpusThreshold(look(lowest), tuple(map(look, LEVELS)), false_positives, len(unique), RANDOM_PAIRS)
