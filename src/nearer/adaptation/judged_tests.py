"""Tests whose answers are what the trusted judges put first: with a log's queries, or with those of the made tests.

The answer of a made test is one passage that is known, and in a large collection hardly anybody finds it: such a test
cannot tell a student from the base. A log has no answers at all. But the made tests have said which judges to trust,
and how near a set-up comes to these can be told by every query that nobody learnt from. Teachers are in no set-up, so
none agrees with itself; where no teacher is trusted, there are no such tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.judging import Collection
from nearer.adaptation.made_tests import FEWEST_QUERIES, JudgedTest
from nearer.adaptation.state import Work
from nearer.adaptation.tournament import JUDGED, OTHER_WORDS, Candidates

ASKED_OF_LOG = 0.2  # of a log's queries at most: the others are learnt from
LOG = f"log {JUDGED}"


def make_judged_tests(
    work: Work, collection: Collection, first: Mapping[str, Candidates], weights: Mapping[str, float]
) -> list[JudgedTest]:
    """One of the log's queries, which are then not learnt from; without a log, one of each kind of made query.

    first: what the made tests found before training, by name; weights: of the trusted judges.
    """
    if not any(weights.get(teacher) for teacher in work.models.teachers):
        return []
    count = min(work.plan.queries, int(ASKED_OF_LOG * len(work.log)))
    if count >= FEWEST_QUERIES:
        return [_of_log(work, collection, count, weights)]
    tests = []
    for name in [name for name in first if not name.endswith(OTHER_WORDS)] or first:
        test, answers = collection.tests[name], first[name].best(weights)
        shown, _ = collection.shown_in(test)
        shared = _overlap(work, collection, test.queries, answers)
        tests.append(JudgedTest(f"{name} {JUDGED}", test.queries, shown, answers, shared, test.kept_as))
    return tests


def _of_log(work: Work, collection: Collection, count: int, weights: Mapping[str, float]) -> JudgedTest:
    order = work.random("log").permutation(len(work.log)).tolist()
    queries = [work.log[number] for number in order[:count]]
    work.log = [work.log[number] for number in sorted(order[count:])]
    asked = JudgedTest(LOG, queries, collection.show(), np.zeros(count, dtype=np.int64), 0.0, "test-log")
    found = collection.measure(asked, best=work.plan.best, by=list(collection.encoders), key="before")
    answers = found.best(weights)
    return replace(asked, answers=answers, overlap=_overlap(work, collection, queries, answers))


def _overlap(work: Work, collection: Collection, queries: Sequence[str], answers: NDArray[np.int64]) -> float:
    pairs = zip(queries, answers.tolist(), strict=True)
    return float(np.mean([work.words.share(query, collection.texts[answer]) for query, answer in pairs]))
