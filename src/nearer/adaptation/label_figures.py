"""What labelled queries say of set-ups: they choose, or measure what others chose; never the same query does both.

Documents are split into passages, so a document stands where its best passage stands. Labels that choose are one half
of the queries, drawn by the seed; the gain that is told is that of the other half. Fewer than `FEWEST_TO_CHOOSE` choose
nothing: the made tests do, and all labels measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.judging import Collection
from nearer.adaptation.labels import Labels
from nearer.adaptation.passages import Passage
from nearer.adaptation.tournament import CUT, Contender, Standing, Values, choose, hold_tournament
from nearer.evaluation.measures import ndcg, spearman
from nearer.search.fusion import fuse

FEWEST_TO_CHOOSE = 50  # queries: of half of fewer, chance decides
LABELS = "labels"


@dataclass(frozen=True)
class LabelledCandidates:
    """What labelled queries may find, and what each judge says of it.

    Attributes:
        numbers: (queries, candidates) passages, −1 where there are no more.
        documents: (passages,) the number of each passage's document.
        gains: Of each query, by the number of a document.
        ideal: Of each query, the gains of all its answers, those that are missing included.
        scores: By judge, (queries, candidates).
    """

    numbers: NDArray[np.int64]
    documents: NDArray[np.int64]
    gains: Sequence[Mapping[int, float]]
    ideal: Sequence[Values]
    scores: Mapping[str, NDArray[np.float32]]

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, rows: NDArray[np.int64]) -> LabelledCandidates:
        """Of some queries."""
        return LabelledCandidates(
            self.numbers[rows],
            self.documents,
            [self.gains[row] for row in rows.tolist()],
            [self.ideal[row] for row in rows.tolist()],
            {judge: values[rows] for judge, values in self.scores.items()},
        )

    def ndcg(self, weights: Mapping[str, float]) -> Values:
        """NDCG@10 of each query (queries,) over documents, when judges count so much."""
        return np.array(
            [
                ndcg(np.array([gains.get(document, 0.0) for document in found[:CUT]]), ideal=ideal, cut=CUT)
                for found, gains, ideal in zip(self._orders(weights), self.gains, self.ideal, strict=True)
            ]
        )

    def ranks(self, weights: Mapping[str, float]) -> NDArray[np.int64]:
        """The rank (queries,) of the first document that answers, from 1; 0: none is among the candidates."""
        return np.array(
            [
                next((rank for rank, document in enumerate(found, 1) if document in gains), 0)
                for found, gains in zip(self._orders(weights), self.gains, strict=True)
            ],
            dtype=np.int64,
        )

    def answer(self, row: int) -> int:
        """The first passage of the best answer."""
        best = max(self.gains[row].items(), key=lambda item: item[1])[0]
        return int(np.flatnonzero(self.documents == best)[0])

    def _orders(self, weights: Mapping[str, float]) -> list[list[int]]:
        """Of each query, the documents of its candidates, the one with the best passage first."""
        fused = fuse(self.scores, weights, self.numbers >= 0)
        orders = np.argsort(-fused, axis=1, kind="stable")
        found = []
        for row, order in enumerate(orders):
            numbers = self.numbers[row, order]
            found.append(list(dict.fromkeys(self.documents[numbers[numbers >= 0]].tolist())))
        return found


@dataclass(frozen=True)
class LabelFigures:
    """What labels say.

    Attributes:
        queries: How many labelled queries were asked; with little time, or missing documents, not all that were given.
        chose: How many of them chose the set-up; 0: the made tests did.
        measured: How many measured it: none of those that chose.
        standings: All set-ups by falling gain over the base, by the queries that measured.
        chosen: The standing of the chosen set-up.
        alone: That of the best encoder alone, as the run chose it.
        correlation: Spearman's, between the gains of all set-ups by the made tests and by all labelled queries.
        judges: NDCG@10 of each judge alone, and of the trusted ones together, by all labelled queries.
        remarks: What is to be said of the labels.
        refit: The standing of the chosen set-up with its encoder trained again on all documents, where it was.
        refit_alone: That of this encoder alone.
    """

    queries: int
    chose: int
    measured: int
    standings: list[Standing]
    chosen: Standing
    alone: Standing
    correlation: float | None
    judges: dict[str, float]
    remarks: list[str]
    refit: Standing | None = None
    refit_alone: Standing | None = None


@dataclass(frozen=True)
class Split:
    """choosing: rows of the queries that choose, maybe none; measuring: of the others."""

    choosing: NDArray[np.int64]
    measuring: NDArray[np.int64]


def split_labels(count: int, *, chooses: bool, random: np.random.Generator) -> Split:
    """Halves, if labels choose; else all measure."""
    order = random.permutation(count)
    half = count // 2 if chooses else 0
    return Split(np.sort(order[:half]), np.sort(order[half:]))


def measure_labels(
    collection: Collection, passages: Sequence[Passage], labels: Labels, *, best: int, by: Sequence[str], key: str
) -> LabelledCandidates:
    """The labelled queries' candidates among all passages, with everybody's scores."""
    numbers, scores = collection.candidates(f"labels-{key}", labels.queries, collection.show(), best=best, by=by)
    number_of: dict[str, int] = {}
    documents = np.array([number_of.setdefault(passage.document, len(number_of)) for passage in passages])
    gains = [{number_of[id]: gain for id, gain in answers.items()} for answers in labels.gains]
    ideal = [
        np.array([*answers.values(), *missing]) for answers, missing in zip(labels.gains, labels.missing, strict=True)
    ]
    return LabelledCandidates(numbers, documents, gains, ideal, scores)


def choose_by_labels(
    candidates: LabelledCandidates, by_tests: Sequence[Standing], base: Contender, *, seed: int = 0
) -> Standing:
    """The best by labels, if it is better with certainty; else the tests' choice of those that labels do not refuse.

    Returns its standing in the tests.
    """
    contenders = [standing.contender for standing in by_tests]
    by_labels = hold_tournament({LABELS: candidates}, contenders, base, seed=seed)
    chosen = choose(by_labels, base).contender
    if chosen == base:
        not_worse = {standing.contender for standing in by_labels if standing.gain >= 0}
        return choose([standing for standing in by_tests if standing.contender in not_worse], base)
    return next(standing for standing in by_tests if standing.contender == chosen)


def correlate(candidates: LabelledCandidates, by_tests: Sequence[Standing]) -> float | None:
    """Spearman's correlation between the set-ups' gains by tests and by labels; None where one side is all equal."""
    tests = np.array([standing.gain for standing in by_tests])
    labels = np.array([candidates.ndcg(standing.contender.weights).mean() for standing in by_tests])
    return spearman(tests, labels)
