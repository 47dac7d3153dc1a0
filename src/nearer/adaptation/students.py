"""Students: encoders that learn the judges' order of passages, or pairs that the text has in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.halving import Student, train_by_halving, train_student
from nearer.adaptation.judging import Collection
from nearer.adaptation.labels import key_of
from nearer.adaptation.material import (
    TrainingQueries,
    draw_queries,
    find_training_views,
    keep_answerable,
    write_material,
    write_pairs,
)
from nearer.adaptation.passages import count_words, document_sentences
from nearer.adaptation.plan import FEWEST_STEPS, listed
from nearer.adaptation.state import WORK, Pretraining, Work
from nearer.adaptation.tournament import BASE, FASTER, LISTS, PAIRS
from nearer.adaptation.views import View
from nearer.adaptation.writing import Written, told_styles
from nearer.encoder.sources import BUNDLED_MODELS
from nearer.errors import SettingError
from nearer.search.fusion import RERANKER
from nearer.storage.whole import write_whole
from nearer.teachers.teacher import teacher_precision
from nearer.teachers.vector_store import VectorStore
from nearer.text.scored_lists import read_list_passages

WORTH_LEARNING = 0.5  # points that judges must stand above the base
FEWEST_PAIRS = 64
OVERSAMPLED = 2  # times as many queries are found as are learnt from
ANSWERED_BY = 5  # nearest passages, whose mean cosine tells how well the text can answer a query
MOST_VIEWS = 200_000  # that pairs are chosen from: more than any training reads, and each holds its passage
# The second student's rate is twice the recipe's: it is better on some texts and worse on others (docs/results.md). A
# base that cannot search yet has further to go (docs/adapt.md).
RATE, FASTER_RATE, RAW_TIMES = 5e-5, 1e-4, 6
# What else a student learns of its teacher: how each passage of a step orders the others. It helps a raw base, and
# where passages are read seldom. Dropout keeps a student from learning them by heart, and hinders it where that is no
# danger. On FiQA, where each is read 11 times, both together are worth 0.9 points; where it is 120 or 430 times they
# cost up to 0.5 (docs/results.md).
PASSAGE_WEIGHT, SELDOM = 1.0, 50
FEWEST_WORDS = 4  # of a sentence
PRETRAINING = 4  # one in so many steps
TSDAE, DISTILLED = "tsdae-wiki-mini", "rankcse-wiki-mini"  # recipes, whose other settings fit any base
SENTENCE_TOKENS = 32  # that a step of distillation reads of each
SENTENCES_AT_ONCE = {True: 512, False: 256}  # on a GPU, on a CPU: the longer the lists, the more there is to learn
USUAL_TOKENS = 128  # of a passage
SEEN = 4  # how often each sentence is learnt from; a teacher need not read more of them


def may_train(work: Work, weights: dict[str, float], above: float) -> list[str]:
    """Students that can learn something: of the judges' lists if the judges know more than the base, of pairs if there
    is neither teacher nor judge. above: points that the judges stand above the base."""
    nobody_teaches = not work.models.teachers and work.models.cross is None
    taught = [LISTS, *[FASTER] * (not nobody_teaches)] if above >= WORTH_LEARNING else []
    return [*taught, *[PAIRS] * nobody_teaches]


def train_students(
    work: Work,
    collection: Collection,
    trained: NDArray[np.bool_],
    weights: dict[str, float],
    above: float,
) -> list[Student]:
    """Those that may train, if there is time for them and enough to learn from."""
    plan, say = work.plan, work.say
    names = may_train(work, weights, above)
    if PAIRS in names:
        views = _find_views(work, trained, MOST_VIEWS)
    else:
        views = find_answerable_views(work, collection, trained, weights, LISTS)
    written: list[Written] = []
    if work.writer is not None and plan.written and names:
        numbers = np.flatnonzero(trained).tolist()
        folder = work.out / WORK / "written-to-learn"
        written = work.write(numbers, folder, plan.written, _measured_keys(work))
        say(f"{len(written):,} queries written to learn from: {told_styles(written)}")
        work.written = written
    steps, start = plan.steps, work.model
    if (way := _way_to_pretrain(work, weights)) is not None and names:
        steps -= plan.steps // PRETRAINING
        work.pretrained = way
        start = str(_pretrain(work, trained, way, plan.steps // PRETRAINING, weights))
    students: list[Student] = []
    if LISTS in names:
        queries = draw_queries(views, work.log, plan.to_learn, work.random("queries"), written)
        if write_student_lists(work, collection, trained, queries, weights, work.out / LISTS, LISTS):
            read = plan.steps * plan.batch * plan.per_query / int(trained.sum())
            students += _of_lists(work, weights, start, read, faster=FASTER in names)
    else:
        say(
            "no student learns lists: no judge at hand knows more of this text than the base (a teacher or judge might)"
        )
    if PAIRS in names:
        students += _of_pairs(work, views, written, start)
    if not plan.halving:
        steps //= len(students) or 1  # they share them
    students = [replace(student, settings={**student.settings, "max_steps": steps}) for student in students]
    if plan.halving:
        work.students = train_by_halving(work, collection, students, steps)
    else:
        work.students = {student.name: train_student(work, student) for student in students}
    return students


def _find_views(work: Work, trained: NDArray[np.bool_], count: int) -> list[View]:
    """So many, without labelled queries: what is measured with is not learnt from."""
    unlike = _measured_keys(work)
    enough = count + len(unlike)
    views = find_training_views(work.passages, trained, work.words, work.random("views"), count=enough)
    return [view for view in views if key_of(view.query) not in unlike]


def find_answerable_views(
    work: Work, collection: Collection, trained: NDArray[np.bool_], weights: Mapping[str, float], key: str
) -> list[View]:
    """Queries to learn from. If the text has more than are needed, those that it can answer best.

    Many copied sentences and questions ask for nothing ("What does that mean?"), so the order of their lists teaches
    nothing. Real queries have passages that are near to them (docs/adapt.md has figures). How near is measured by the
    trusted teacher, or by the base where there is none. key: the name that this is kept under.
    """
    count = work.plan.to_learn
    views = _find_views(work, trained, OVERSAMPLED * count)
    if len(views) <= count:
        return views
    nearness = collection.nearness(
        f"nearness-{key}",
        [view.query for view in views],
        _trusted_teacher(work, weights) or BASE,
        collection.show(trained),
        np.array([view.passage for view in views], dtype=np.int64),
        best=ANSWERED_BY,
    )
    return keep_answerable(views, nearness, count)


def _measured_keys(work: Work) -> set[str]:
    return set() if work.labels is None else set(work.labels.keys)


def write_student_lists(
    work: Work,
    collection: Collection,
    trained: NDArray[np.bool_],
    queries: TrainingQueries,
    weights: dict[str, float],
    folder: Path,
    key: str,
) -> bool:
    """Write the scored lists of these queries. Returns False, and says so, if they are too few to train with.

    key: the name that scores are kept under.
    """
    plan = work.plan
    count = write_material(
        folder,
        collection,
        queries,
        trained,
        weights,
        best=listed(plan),
        by=[BASE, *work.models.teachers],
        fewest=2 * plan.per_query,
        key=key,
        reranked=bool(weights.get(RERANKER)),
    )
    if count < plan.batch:
        work.say(f"no student learns lists: {count:,} are too few for a batch of {plan.batch}")
        return False
    _hand_over_vectors(work, collection, folder, weights)
    return True


def _hand_over_vectors(work: Work, collection: Collection, folder: Path, weights: Mapping[str, float]) -> None:
    """Vectors of the listed passages go where training looks for them, so that it does not encode them again.

    They are those of the trusted teacher; without one, of the base, by which training finds false negatives.
    """
    teacher = _trusted_teacher(work, weights) or BASE
    encoder = collection.encoders[teacher]
    precision = teacher_precision(encoder.device)
    if collection.workforce.precision(encoder) == precision:
        passages = list(read_list_passages(folder))
        numbers = np.array([int(passage.id) for passage in passages])
        vectors = collection.vectors[teacher][numbers]
        VectorStore(encoder, precision=precision).add_known((passage.text for passage in passages), vectors)


def _of_lists(work: Work, weights: dict[str, float], start: str, read: float, *, faster: bool) -> list[Student]:
    """One that learns lists, and one that learns them `faster` if there is time for two. read: how often a passage
    is."""
    plan, folder = work.plan, work.out / LISTS
    teachers = _best_teacher(work, weights)
    settings: dict[str, Any] = {
        "batch_size": plan.batch,
        "passages_per_query": plan.per_query,
        "teacher_max_length": "whole",  # as it read them when it judged
    }
    seldom = read < SELDOM
    if seldom:
        settings["dropout"] = 0.0
    if teachers and (seldom or work.base_is_raw):
        settings["passage_weight"] = PASSAGE_WEIGHT
    times = RAW_TIMES if work.base_is_raw else 1
    if work.base_is_raw:
        work.say(
            f"the base has less than half of its best teacher's score here: students learn at {times} times the rate"
        )
    rates = {LISTS: times * RATE, **({FASTER: times * FASTER_RATE} if plan.halving and faster else {})}
    return [
        Student(name, LISTS, folder, {**settings, "learning_rate": rate}, start, teachers)
        for name, rate in rates.items()
    ]


def _of_pairs(work: Work, views: Sequence[View], written: Sequence[Written], start: str) -> list[Student]:
    path = work.out / "pairs.jsonl"
    count = write_pairs(path, views, [(one.query, work.passages[one.passage].titled) for one in written])
    if count < FEWEST_PAIRS:
        work.say(f"no student learns pairs: the text has {count:,} titles, headings or openings")
        return []
    settings: dict[str, Any] = {"batch_size": min(32, count // 2), "watch_on": []}
    return [Student(PAIRS, "simcse-pairs-wiki-mini", path, settings, start)]


def _way_to_pretrain(work: Work, weights: Mapping[str, float]) -> Pretraining | None:
    """As was asked for; a raw base learns from its trusted teacher if nothing was asked for, unless there are
    hardly any steps."""
    way = work.pretrain or ("teacher" if work.base_is_raw and work.plan.steps >= PRETRAINING * FEWEST_STEPS else "none")
    if way == "teacher" and _trusted_teacher(work, weights) is None:
        if work.pretrain is not None:
            work.say("the base learns nothing first: no teacher is trusted on this text")
        return None
    return None if way == "none" else way


def _pretrain(
    work: Work, trained: NDArray[np.bool_], way: Pretraining, steps: int, weights: Mapping[str, float]
) -> Path:
    """The base after learning from the sentences that no test holds out; students start from it. steps: on lists, of
    which this takes the time."""
    learnt = {passage.document for passage, is_trained in zip(work.passages, trained, strict=True) if is_trained}
    documents = [document for document in work.documents.documents if document.id in learnt]
    sentences = list(
        dict.fromkeys(
            sentence
            for document in documents
            for sentence in (" ".join(part.split()) for part in document_sentences(document))
            if count_words(sentence) >= FEWEST_WORDS
        )
    )
    path = work.out / "sentences.txt"
    if way == "teacher":
        return _distil(work, sentences, path, steps, weights)
    write_whole(path, (f"{sentence}\n" for sentence in sentences))
    work.say(f"TSDAE learns {len(sentences):,} sentences for {steps:,} steps; students start from there")
    settings = {"batch_size": min(32, len(sentences) // 2), "max_steps": steps, "watch_on": []}
    student = Student("tsdae", TSDAE, path, settings, work.model)
    try:
        return train_student(work, student)
    except SettingError as error:
        if not str(error).startswith("decoder:"):
            raise
        work.say(f"{error} A small one is taken.")  # it is the backbone's nature, which nobody can set
        return train_student(work, replace(student, settings={**settings, "decoder": "small"}))


def _distil(work: Work, sentences: Sequence[str], path: Path, steps: int, weights: Mapping[str, float]) -> Path:
    """The base after learning which sentences the trusted teacher finds alike."""
    plan = work.plan
    at_once = min(SENTENCES_AT_ONCE[plan.longest is None], len(sentences) // 2)
    read = plan.batch * plan.per_query * (plan.longest or USUAL_TOKENS)  # in a step on lists
    steps = max(1, steps * read // (at_once * SENTENCE_TOKENS))
    most = -(-steps * at_once // SEEN)
    chosen = np.sort(work.random("sentences").permutation(len(sentences))[:most]).tolist()
    write_whole(path, (f"{sentences[number]}\n" for number in chosen))
    teacher = _trusted_teacher(work, weights)
    work.say(
        f"the base learns {teacher}'s order of {len(chosen):,} sentences for {steps:,} steps; students start there"
    )
    settings: dict[str, Any] = {
        "batch_size": at_once,
        "max_steps": steps,
        "max_length": SENTENCE_TOKENS,
        "epochs": 1000,  # as many as the steps need
        "evaluate_every": steps,
        "watch_on": [],
    }
    if work.model not in BUNDLED_MODELS:  # the recipe's rate is that of this small model
        settings["learning_rate"] = RAW_TIMES * RATE
    teachers = _best_teacher(work, weights)
    return train_student(work, Student("distilled", DISTILLED, path, settings, work.model, teachers))


def _best_teacher(work: Work, weights: Mapping[str, float]) -> list[str]:
    """Whose order of the whole batch is learnt beside the lists: the teacher that counts most."""
    teacher = _trusted_teacher(work, weights)
    return [] if teacher is None else [work.models.teachers[teacher].name]


def _trusted_teacher(work: Work, weights: Mapping[str, float]) -> str | None:
    """The teacher that counts most, if any counts."""
    trusted = [name for name in work.models.teachers if weights.get(name)]
    return max(trusted, key=lambda name: weights[name], default=None)
