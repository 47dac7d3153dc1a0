"""`nearer mine`: training data out of documents, on its own: pairs, query-like text, hard negatives, scored lists.

    passages = read_passages("handbook/")
    mine_pairs(passages, "pairs.jsonl")

What takes long is kept in `OUT.work` until the data is written, so the same call goes on after an interruption.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.judging import Collection
from nearer.adaptation.kept import Kept
from nearer.adaptation.made_tests import MadeTest
from nearer.adaptation.material import (
    MOST_OF_A_PASSAGE,
    choose_pairs,
    draw_queries,
    find_training_views,
    write_material,
    write_pairs,
    write_rows,
)
from nearer.adaptation.models import Models, encode_texts
from nearer.adaptation.passages import Passage
from nearer.adaptation.state import digest
from nearer.adaptation.tournament import BASE
from nearer.adaptation.views import KINDS, RareWords, View
from nearer.errors import InputError, SettingError, did_you_mean
from nearer.search.fusion import LEXICAL, RERANKER
from nearer.storage.whole import make_folder, written_by_us_alone

FEWEST_LISTED = 4  # passages of a list
PAIRS = "pairs"


@dataclass(frozen=True)
class Mined:
    """written: records; left_out: queries or pairs of which none could be made."""

    written: int
    left_out: int = 0


def mine_pairs(passages: Sequence[Passage], out: str | Path, *, limit: int | None = None, seed: int = 0) -> Mined:
    """Titles, headings, docstrings or openings with what they stand above: one pair of a passage at most."""
    path = _new(out)
    return Mined(write_pairs(path, _pairs(passages, limit, seed)))


def mine_queries(
    passages: Sequence[Passage],
    out: str | Path,
    *,
    kinds: Sequence[str] = KINDS,
    limit: int | None = None,
    seed: int = 0,
) -> Mined:
    """Query-like text, three of a passage at most, with its kind, its passage, and how many words they share."""
    path = _new(out)
    for kind in kinds:
        if kind not in KINDS:
            raise SettingError(f"kinds: {kind!r} is not one of {', '.join(KINDS)}.{did_you_mean(kind, KINDS)}")
    views = [view for view in _views(passages, seed) if view.kind in kinds][:limit]
    rows = (
        {
            "text": view.query,
            "kind": view.kind,
            "passage": passages[view.passage].id,
            "overlap": round(view.overlap, 3),
        }
        for view in _some(views, " or ".join(kinds))
    )
    write_rows(path, rows)
    return Mined(len(views))


def mine_negatives(
    passages: Sequence[Passage],
    out: str | Path,
    models: Models,
    *,
    negatives: int = 1,
    best: int = 30,
    margin: float = 0.05,
    limit: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Mined:
    """Pairs with hard negatives: passages of other documents that are found for the anchor, the hardest first.

    A passage that the judge (the encoder, or the cross-encoder if there is one) puts above the positive's score less
    `margin` may be an answer, and is left out; so is an anchor with fewer than `negatives` others.

    Args:
        passages: All that there are.
        out: The new file of triplets.
        models: Its base finds candidates beside BM25; its teachers are not used.
        negatives: Triplets of each pair.
        best: How many candidates the encoder and BM25 name each.
        margin: In the judge's own scores: cosines of the encoder, or what the cross-encoder says.
        limit: So many pairs at most.
        seed: Decides which pairs.
        progress: Show bars.
    """
    path = _new(out)
    views = _pairs(passages, limit, seed)
    asked = MadeTest(
        PAIRS, [view.query for view in views], np.array([view.passage for view in views]), [v.rest for v in views], 0.0
    )
    with _kept(path, passages, models, best, [asked.queries]) as kept:
        collection = Collection([passage.titled for passage in passages], [asked], kept, progress=progress)
        collection.cross = models.cross
        collection.add_encoder(BASE, models.base, BASE)
        numbers, scores = collection.candidates(
            "negatives", asked.queries, _passages_of(collection), best=best, by=[BASE], left_out=asked.passages
        )
        judged = scores[BASE if models.cross is None else RERANKER]
        own = _score_positives(collection, asked, models)
        documents = np.unique([passage.document for passage in passages], return_inverse=True)[1]
        usable = (
            (numbers >= 0)
            & (documents[numbers] != documents[asked.passages][:, None])
            & (judged < own[:, None] - margin)
        )
        hardest = np.argsort(-np.where(usable, scores[BASE], -np.inf), axis=1, kind="stable")[:, :negatives]
        enough = usable.sum(axis=1) >= negatives
        write_rows(
            path,
            (
                {"anchor": view.query, "positive": view.rest, "hard_negative": collection.texts[int(number)]}
                for row, view in enumerate(views)
                if enough[row]
                for number in numbers[row, hardest[row]]
            ),
        )
    return Mined(negatives * int(enough.sum()), int((~enough).sum()))


def mine_lists(
    passages: Sequence[Passage],
    out: str | Path,
    models: Models,
    *,
    log: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    best: int = 20,
    limit: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Mined:
    """Queries (of a log, then query-like text) with passages that judges scored, as `nearer train lists` reads them.

    Args:
        passages: All that there are.
        out: The new folder.
        models: Base, teachers and cross-encoder are judges, and so is BM25.
        log: Real queries, without labels.
        weights: How much each judge counts: `base`, `lexical`, `reranker`, or a teacher's name. None: teachers and
            cross-encoder count 1; without them the base and BM25 do.
        best: How many candidates each encoder and BM25 name.
        limit: So many queries at most.
        seed: Decides which ones.
        progress: Show bars.
    """
    folder = _new(out)
    by = [BASE, *models.teachers]
    counted = _check_weights(weights, models)
    views = _views(passages, seed, count=limit)
    drawn = draw_queries(views, log, limit or len(views) + len(log), np.random.default_rng([seed, 1]))
    if not len(drawn):
        raise InputError("documents: no query-like text is found in them; give queries (--queries).")
    with _kept(folder, passages, models, best, [drawn.texts]) as kept:
        collection = Collection([passage.titled for passage in passages], [], kept, progress=progress)
        collection.cross = models.cross
        for name, encoder in {BASE: models.base, **models.teachers}.items():
            collection.add_encoder(name, encoder, digest(name)[:8])
        count = write_material(
            folder,
            collection,
            drawn,
            np.ones(len(passages), dtype=bool),
            counted,
            best=best,
            by=by,
            fewest=FEWEST_LISTED,
            key="lists",
            reranked=bool(counted.get(RERANKER)),
        )
    return Mined(count, len(drawn) - count)


def _views(
    passages: Sequence[Passage], seed: int, most: int | None = MOST_OF_A_PASSAGE, count: int | None = None
) -> list[View]:
    words = RareWords([passage.titled for passage in passages])
    everything = np.ones(len(passages), dtype=bool)
    return find_training_views(passages, everything, words, np.random.default_rng([seed, 0]), most=most, count=count)


def _pairs(passages: Sequence[Passage], limit: int | None, seed: int) -> list[View]:
    """One of a passage: its title if it has one, whatever else it has."""
    views = choose_pairs(_views(passages, seed, most=None))[:limit]
    return _some(views, "title, heading, docstring or opening")


def _some(views: list[View], kinds: str) -> list[View]:
    if not views:
        raise InputError(f"documents: no {kinds} is found in them that is long enough, beside enough other text.")
    return views


def _new(out: str | Path) -> Path:
    path = Path(out)
    if path.exists():
        raise InputError(f"{path}: is there already; name another, or remove it.", argument="out")
    return path


def _passages_of(collection: Collection) -> NDArray[np.bool_]:
    shown = np.zeros(len(collection.texts), dtype=bool)
    shown[: collection.passages] = True
    return shown


def _score_positives(collection: Collection, asked: MadeTest, models: Models) -> NDArray[np.float32]:
    """What the judge says of each query and its rest."""
    if models.cross is not None:
        pairs = [(row, row) for row in range(len(asked))]
        return models.cross.score(asked.queries, asked.rests, pairs).astype(np.float32)
    rests = collection.vectors[BASE][collection.passages :]
    queries = encode_texts(models.base, asked.queries)
    scores: NDArray[np.float32] = (queries * rests).sum(axis=1)
    return scores


def _check_weights(weights: Mapping[str, float] | None, models: Models) -> dict[str, float]:
    known = [BASE, *models.teachers, LEXICAL, *([RERANKER] if models.cross is not None else [])]
    if weights is None:
        better = [name for name in known if name not in (BASE, LEXICAL)]
        return dict.fromkeys(better or [BASE, LEXICAL], 1.0)
    for name, weight in weights.items():
        if name not in known:
            raise SettingError(f"weights: {name!r} is no judge here; there are {', '.join(known)}.", argument="weights")
        if not 0 <= weight < np.inf:
            raise SettingError(f"weights: {name} has {weight:g}; a number of 0 or more is needed.", argument="weights")
    if not any(weights.values()):
        raise SettingError("weights: all are 0; at least one judge must count.", argument="weights")
    return {name: float(weight) for name, weight in weights.items() if weight}


@contextmanager
def _kept(
    out: Path, passages: Sequence[Passage], models: Models, best: int, queries: Sequence[Sequence[str]]
) -> Iterator[Kept]:
    """What judges said of this text and these queries; gone once the data is written."""
    base, cross = models.base, models.cross
    pooling = base.settings.pooling or ""
    names = [base.name, pooling, *models.teachers, "" if cross is None else cross.name, str(best)]
    asked = [query for part in queries for query in part]
    about = digest(*names, *(passage.titled for passage in passages), *asked)
    folder = out.with_name(f"{out.name}.work")
    make_folder(folder)
    with written_by_us_alone(folder / "lock", out):
        try:
            yield Kept(folder / about)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; the same command goes on, with what is kept in {folder}") from None
    shutil.rmtree(folder, ignore_errors=True)
