"""What students learn from: query-like text with lists of passages that judges scored, and pairs that belong together.

Only passages that no test holds out are in it. A query that was copied out of a passage does not get that passage in
its list: it would be found by its words alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.judging import Collection
from nearer.adaptation.passages import Passage
from nearer.adaptation.views import ASKED, RareWords, View, find_views, may_be_asked
from nearer.adaptation.writing import Written
from nearer.search.fusion import NONE, fuse
from nearer.storage.whole import write_whole
from nearer.text import write_lists

MOST_OF_A_PASSAGE = 3  # queries
ASKED_SHARE = 0.75  # of the queries are titles, headings, docstrings and questions, if the passages have so many
# From so many real queries on, at most half as many copied ones are added: on FiQA a student of 6,000 real queries
# reached 42.3, and one of 12,000 copied ones 40.3.
MANY_REAL = 2000
PAIRED = ("title", "heading", "docstring", "opening")  # kinds whose rest answers them
LOG, WRITTEN = "log", "written"


@dataclass(frozen=True)
class TrainingQueries:
    """Query-like texts with their kinds, and the passage each was copied from (−1: none)."""

    texts: list[str]
    kinds: list[str]
    sources: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)


def find_training_views(
    passages: Sequence[Passage],
    trained: NDArray[np.bool_],
    words: RareWords,
    random: np.random.Generator,
    *,
    most: int | None = MOST_OF_A_PASSAGE,
    count: int | None = None,
) -> list[View]:
    """Views of the passages that are trained on: one of each passage, then a second one, and so on.

    Of each passage, what somebody may have asked comes first: a title before a sentence. most: of a passage (None:
    all). count: so many are enough (None: all). Then only some passages are cut up, first those that have a title or a
    question: to cut up all of a large collection takes minutes.
    """
    found: list[View] = []
    known: set[str] = set()
    further: list[list[View]] = []
    order = random.permutation(np.flatnonzero(trained)).tolist()
    for number in order if count is None else _asked_first(passages, order, int(ASKED_SHARE * count)):
        views = find_views(passages, [number], words)
        first_of_each: dict[str, View] = {}  # an opening is a sentence as well
        for at in sorted(random.permutation(len(views)).tolist(), key=lambda at: views[at].kind not in ASKED):
            first_of_each.setdefault(views[at].query, views[at])
        new = [view for query, view in first_of_each.items() if query not in known][:most]
        known.update(view.query for view in new)
        found += new[:1]
        further.append(new[1:])
        if count is not None and len(found) >= count:
            further.clear()
            break
    # who takes the first few of them gets sentences as well as titles
    found = [found[at] for at in random.permutation(len(found)).tolist()]
    while any(further):
        found += [views[0] for views in further if views]
        further = [views[1:] for views in further if len(views) > 1]
    return found[:count]


def _asked_first(passages: Sequence[Passage], order: Sequence[int], most: int) -> list[int]:
    """The numbers in this order, but those of `most` passages with a title or a question come before all others."""
    asked = list(islice((number for number in order if may_be_asked(passages[number])), most))
    first = set(asked)
    return [*asked, *(number for number in order if number not in first)]


def keep_answerable(views: Sequence[View], nearness: NDArray[np.float32], count: int) -> list[View]:
    """So many of them in their order, of each kind the same share: those with the highest nearness."""
    kept: list[int] = []
    kinds = np.array([view.kind for view in views])
    for kind in dict.fromkeys(kinds.tolist()):
        numbers = np.flatnonzero(kinds == kind)
        best = numbers[np.argsort(-nearness[numbers], kind="stable")]
        kept += best[: round(len(numbers) * count / len(views))].tolist()
    return [views[number] for number in sorted(kept)]


def draw_queries(
    views: Sequence[View],
    log: Sequence[str],
    count: int,
    random: np.random.Generator,
    written: Sequence[Written] = (),
) -> TrainingQueries:
    """Real queries first, then written ones, then views, but few of these where there are many real ones.

    Only a copied query does not get its own passage: a written one asks for it in other words, as in GPL.
    """
    logged = [log[number] for number in random.permutation(len(log))[:count].tolist()]
    asked = written[: count - len(logged)]
    others = len(logged) + len(asked)
    room = count - others
    if len(logged) >= MANY_REAL:
        room = min(room, len(logged) // 2)
    copied = views[:room]
    return TrainingQueries(
        [*logged, *(one.query for one in asked), *(view.query for view in copied)],
        [*([LOG] * len(logged)), *(f"{WRITTEN} {one.style}" for one in asked), *(view.kind for view in copied)],
        np.array([*([NONE] * others), *(view.passage for view in copied)], dtype=np.int64),
    )


def write_material(
    folder: Path,
    collection: Collection,
    queries: TrainingQueries,
    trained: NDArray[np.bool_],
    weights: Mapping[str, float],
    *,
    best: int,
    by: Sequence[str],
    fewest: int,
    key: str,
    reranked: bool,
) -> int:
    """Scored lists as `nearer train lists` reads them; returns how many.

    fewest: passages that a list must have; one whose passages all score alike has no order to learn.
    """
    if not len(queries):
        return 0
    numbers, scores = collection.candidates(
        f"material-{key}",
        queries.texts,
        collection.show(trained),
        best=best,
        by=by,
        left_out=queries.sources,
        reranked=reranked,
    )
    valid = numbers >= 0
    fused = np.round(fuse(scores, weights, valid), 4)
    has_order = np.where(valid, fused, np.inf).min(axis=1) < fused.max(axis=1)
    usable = np.flatnonzero((valid.sum(axis=1) >= fewest) & has_order).tolist()
    used = sorted({int(number) for row in usable for number in numbers[row][valid[row]]})
    write_lists(
        folder,
        ({"_id": str(number), "text": collection.texts[number]} for number in used),
        ({"_id": f"q{row}", "text": queries.texts[row], "kind": queries.kinds[row]} for row in usable),
        (
            {
                "query": f"q{row}",
                "passages": [str(number) for number in numbers[row][valid[row]]],
                "scores": [float(score) for score in fused[row][valid[row]]],
            }
            for row in usable
        ),
        overwrite=True,
    )
    return len(usable)


def choose_pairs(views: Sequence[View]) -> list[View]:
    """Those whose rest answers them, one of a passage: its title, else its heading, and so on."""
    by_passage: dict[int, View] = {}
    for view in views:
        best = by_passage.get(view.passage)
        if view.kind in PAIRED and (best is None or PAIRED.index(view.kind) < PAIRED.index(best.kind)):
            by_passage[view.passage] = view
    return list(by_passage.values())


def write_pairs(path: Path, views: Sequence[View], written: Sequence[tuple[str, str]] = ()) -> int:
    """A title and its body, an opening and what follows, one of a passage; and written queries with their passages.

    Returns how many.
    """
    pairs = [*((view.query, view.rest) for view in choose_pairs(views)), *written]
    write_rows(path, ({"sentence1": query, "sentence2": text} for query, text in pairs))
    return len(pairs)


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """As JSON lines, whole or not at all."""
    write_whole(path, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
