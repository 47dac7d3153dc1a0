"""Students: encoders that learn the judges' order of passages, or pairs that the text has in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearer.adaptation.judging import Collection
from nearer.adaptation.labels import key_of
from nearer.adaptation.material import draw_queries, find_training_views, write_material, write_pairs
from nearer.adaptation.passages import count_words, document_sentences
from nearer.adaptation.plan import listed
from nearer.adaptation.state import MODEL, WORK, Work
from nearer.adaptation.tournament import BASE, LISTS, PAIRS, VECTORS
from nearer.adaptation.writing import Written, count_styles, told_styles
from nearer.errors import SettingError
from nearer.search.fusion import RERANKER
from nearer.storage.whole import write_whole
from nearer.training import resume, train

WORTH_LEARNING = 0.5  # points that judges must stand above the base
FEWEST_PAIRS = 64
MOST_VIEWS = 200_000  # that pairs are chosen from: more than any training reads, and each holds its passage
VECTOR_WEIGHT, VECTOR_RATE = 20.0, 1e-4  # to move to a teacher's vectors takes larger steps
FEWEST_WORDS = 4  # of a sentence
TSDAE = "tsdae-wiki-mini"  # whose settings fit any base
PRETRAINING = 4  # one in so many steps


def train_students(
    work: Work,
    collection: Collection,
    trained: np.ndarray[Any, np.dtype[np.bool_]],
    weights: dict[str, float],
    above: float,
) -> None:
    """One learns the judges' lists if these know more than the base, and one a teacher's vectors as well, if there is
    time for both; one learns pairs if no model teaches."""
    plan, say = work.plan, work.say
    unlike = set() if work.labels is None else work.labels.keys  # what is measured with is not learnt from
    learns_lists = above >= WORTH_LEARNING
    learns_pairs = not work.models.teachers and work.models.cross is None
    enough = MOST_VIEWS if learns_pairs else plan.to_learn + len(unlike)
    views = find_training_views(work.passages, trained, work.words, work.random("views"), count=enough)
    views = [view for view in views if key_of(view.query) not in unlike]
    written: list[Written] = []
    if work.writer is not None and plan.written and (learns_lists or learns_pairs):
        numbers = np.flatnonzero(trained).tolist()
        folder = work.out / WORK / "written-to-learn"
        written = work.write(numbers, folder, plan.written, unlike)
        say(f"{len(written):,} queries written to learn from: {told_styles(written)}")
        work.written = count_styles(written)
    left, start = plan.steps, work.model
    if work.pretrain and (learns_lists or learns_pairs):
        left -= plan.steps // PRETRAINING
        start = str(_pretrain(work, trained, plan.steps // PRETRAINING))
    steps = left // (learns_lists + learns_pairs or 1)
    if learns_lists:
        queries = draw_queries(views, work.log, plan.to_learn, work.random("queries"), written)
        folder, per_query = work.out / LISTS, plan.per_query
        count = write_material(
            folder,
            collection,
            queries,
            trained,
            weights,
            best=listed(plan),
            by=[BASE, *work.models.teachers],
            fewest=2 * per_query,
            key=LISTS,
            reranked=bool(weights.get(RERANKER)),
        )
        if count >= plan.batch:
            settings: dict[str, Any] = {"batch_size": plan.batch, "passages_per_query": per_query, "max_steps": steps}
            teachers = _best_teacher(work, weights)
            work.students[LISTS] = _train(work, LISTS, folder, settings, model=start, teachers=teachers)
            if plan.two_students and teachers:
                settings |= {"vector_weight": VECTOR_WEIGHT, "learning_rate": VECTOR_RATE}
                work.students[VECTORS] = _train(
                    work, LISTS, folder, settings, model=start, teachers=teachers, name=VECTORS
                )
        else:
            say(f"no student learns lists: {count:,} are too few for a batch of {plan.batch}")
    else:
        say(
            "no student learns lists: no judge at hand knows more of this text than the base (a teacher or judge might)"
        )
    if learns_pairs:
        path = work.out / "pairs.jsonl"
        count = write_pairs(path, views, [(one.query, work.passages[one.passage].titled) for one in written])
        if count >= FEWEST_PAIRS:
            paired: dict[str, Any] = {"batch_size": min(32, count // 2), "max_steps": steps, "watch_on": []}
            work.students[PAIRS] = _train(work, "simcse-pairs-wiki-mini", path, paired, model=start, name=PAIRS)
        else:
            say(f"no student learns pairs: the text has {count:,} titles, headings or openings")


def _pretrain(work: Work, trained: np.ndarray[Any, np.dtype[np.bool_]], steps: int) -> Path:
    """The base after TSDAE on the sentences that no test holds out; students start from it."""
    learnt = {passage.document for passage, is_trained in zip(work.passages, trained, strict=True) if is_trained}
    documents = [document for document in work.documents.documents if document.id in learnt]
    sentences = dict.fromkeys(
        sentence
        for document in documents
        for sentence in (" ".join(part.split()) for part in document_sentences(document))
        if count_words(sentence) >= FEWEST_WORDS
    )
    path = work.out / "sentences.txt"
    write_whole(path, (f"{sentence}\n" for sentence in sentences))
    work.say(f"TSDAE learns {len(sentences):,} sentences for {steps:,} steps; students start from there")
    settings = {"batch_size": min(32, len(sentences) // 2), "max_steps": steps, "watch_on": []}
    try:
        return _train(work, TSDAE, path, settings, model=work.model, name="tsdae")
    except SettingError as error:
        if not str(error).startswith("decoder:"):
            raise
        work.say(f"{error} A small one is taken.")  # it is the backbone's nature, which nobody can set
        return _train(work, TSDAE, path, {**settings, "decoder": "small"}, model=work.model, name="tsdae")


def _train(
    work: Work,
    recipe: str,
    corpus: Path,
    settings: dict[str, Any],
    *,
    model: str,
    name: str = LISTS,
    teachers: Sequence[str] = (),
) -> Path:
    """A student's folder; a run that was interrupted goes on, one that ended is taken as it is."""
    run = work.out / "runs" / name
    if (run / MODEL).is_dir():
        return run / MODEL
    if run.is_dir():
        return resume(run, progress=work.progress).model
    common: dict[str, Any] = {"seed": work.seed, "select_on": [], "test_on": []}
    if work.plan.longest is not None:
        common["max_length"] = work.plan.longest
    pooling = {} if work.models.base.settings.pooling is None else {"pooling": work.models.base.settings.pooling}
    trained = train(
        recipe,
        corpus,
        model=model,
        teachers=list(teachers) or None,
        out=run,
        settings={**common, **pooling, **settings},
        progress=work.progress,
    )
    return trained.model


def _best_teacher(work: Work, weights: dict[str, float]) -> list[str]:
    """Whose order of the whole batch is learnt beside the lists: the teacher that counts most."""
    names = sorted(work.models.teachers, key=lambda name: -weights.get(name, 0.0))
    return [work.models.teachers[names[0]].name] if names and weights.get(names[0]) else []
