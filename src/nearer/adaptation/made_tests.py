"""Tests made of the text itself: queries whose answers are known, from documents that training never sees.

Queries that are copied from documents favour whatever matches words, and nobody knows how a collection's users ask: in
its words or in their own. So each kind of view makes two tests: as it is, and with the views that share the fewest
words with the rest of their passage. docs/adapt.md has how well they agree with human labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.passages import Passage
from nearer.adaptation.tournament import OTHER_WORDS
from nearer.adaptation.views import KINDS, RareWords, View, find_views
from nearer.adaptation.writing import Written
from nearer.errors import InputError

FEWEST_QUERIES = 30  # of a test: with fewer, chance decides
MOST_ASKED = 400  # queries of a test
USUAL_TESTS = 6
LOW_SHARE = 0.25  # of the passages, those whose views share the fewest words with the rest
WRITTEN = "written"
AskedIn = Literal["documents", "own"]  # whose words people ask in


@dataclass(frozen=True)
class MadeTest:
    """Queries, and to each the passage that answers it, whose text is shown without the query.

    Attributes:
        name: The kind of view, with `in other words` where those of little overlap were chosen.
        queries: Texts.
        passages: The number of the passage that answers each; every passage answers one at most.
        rests: What that passage says in this test.
        overlap: The mean share of a query's rarer words that its answer has.
    """

    name: str
    queries: list[str]
    passages: NDArray[np.int64]
    rests: list[str]
    overlap: float

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def kept_as(self) -> str:
        """How the names begin that its candidates are kept under."""
        return f"test-{self.name.replace(' ', '-')}"


@dataclass(frozen=True)
class JudgedTest:
    """Queries, and to each the number of the text that the trusted judges put first.

    Attributes:
        name: Of the test, with `as judged` at its end.
        queries: Texts.
        shown: Which texts of the collection it shows.
        answers: (queries,)
        overlap: The mean share of a query's rarer words that its answer has.
        kept_as: How the names begin that its candidates are kept under.
    """

    name: str
    queries: list[str]
    shown: NDArray[np.bool_]
    answers: NDArray[np.int64]
    overlap: float
    kept_as: str

    def __len__(self) -> int:
        return len(self.queries)


AnyTest = MadeTest | JudgedTest


def hold_out(passages: Sequence[Passage], *, share: float, most: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Which passages are kept from training: those of a share of the documents, `most` passages at most."""
    documents = list(dict.fromkeys(passage.document for passage in passages))
    counts = dict.fromkeys(documents, 0)
    for passage in passages:
        counts[passage.document] += 1
    held: set[str] = set()
    total, wanted = 0, min(most, share * len(passages))
    for number in random.permutation(len(documents)):
        if total >= wanted or len(held) + 1 >= len(documents):
            break
        held.add(documents[number])
        total += counts[documents[number]]
    return np.array([passage.document in held for passage in passages], dtype=bool)


def make_tests(
    passages: Sequence[Passage],
    held_out: NDArray[np.bool_],
    words: RareWords,
    *,
    queries: int,
    random: np.random.Generator,
    asked_in: AskedIn | None = None,
) -> list[MadeTest]:
    """Two tests of each kind of which there are enough views, or one where it is known whose words people ask in.

    queries: of each test at most; more where there are fewer tests than usual, so that all have as many together.
    """
    by_kind: dict[str, dict[int, list[View]]] = {kind: {} for kind in KINDS}  # and by passage
    for view in find_views(passages, np.flatnonzero(held_out).tolist(), words):
        by_kind[view.kind].setdefault(view.passage, []).append(view)
    enough = [kind for kind in KINDS if len(by_kind[kind]) >= FEWEST_QUERIES]
    count = len(enough) * (2 if asked_in is None else 1)
    if 0 < count < USUAL_TESTS:
        queries = max(queries, min(MOST_ASKED, queries * USUAL_TESTS // count))
    tests = []
    for kind in enough:
        by_passage = by_kind[kind]
        groups = [by_passage[number] for number in random.permutation(list(by_passage)).tolist()]
        drawn = [group[random.integers(len(group))] for group in groups[:queries]]
        if asked_in != "own":
            tests.append(_test(kind, drawn))
        low = sorted((min(group, key=lambda view: view.overlap) for group in groups), key=lambda view: view.overlap)
        low = low[: max(FEWEST_QUERIES, int(LOW_SHARE * len(low)))]
        if len(low) > queries:  # not the very lowest: how many are asked must not decide what kind of query they are
            low = [low[number] for number in np.sort(random.permutation(len(low))[:queries]).tolist()]
        if asked_in != "documents":
            tests.append(_test(f"{kind} {OTHER_WORDS}", low))
    if not tests:
        raise InputError(
            f"documents: no test can be made of them: {int(held_out.sum()):,} passages were held out, and no kind of "
            f"query ({', '.join(KINDS)}) is found in {FEWEST_QUERIES} of them. Give more text, or labelled queries.",
            argument="documents",
        )
    return tests


def make_written_test(passages: Sequence[Passage], written: Sequence[Written], words: RareWords) -> list[MadeTest]:
    """A test of queries that a language model wrote for passages; none where they are too few."""
    views = []
    for one in {each.passage: each for each in written}.values():  # one of a passage
        rest = passages[one.passage].titled
        views.append(View(WRITTEN, one.query, one.passage, rest, words.share(one.query, rest)))
    return [_test(WRITTEN, views)] if len(views) >= FEWEST_QUERIES else []


def _test(name: str, views: Sequence[View]) -> MadeTest:
    return MadeTest(
        name,
        [view.query for view in views],
        np.array([view.passage for view in views], dtype=np.int64),
        [view.rest for view in views],
        float(np.mean([view.overlap for view in views])),
    )
