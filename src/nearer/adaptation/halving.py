"""Successive halving: students train for a part of their steps, the made tests compare them, the better half goes on.

A student is one run, whose learning rates are those of its whole length. It is stopped at a rung and resumed later, to
the bit as if it never had been stopped. What a rung decided is kept in `work/rung-N.json`: an interrupted adapt goes on
with the same students.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from nearer.adaptation.judging import Collection
from nearer.adaptation.made_tests import AnyTest, JudgedTest
from nearer.adaptation.models import encode_texts
from nearer.adaptation.plan import first_rung
from nearer.adaptation.state import MODEL, WORK, Work
from nearer.adaptation.tournament import CUT, Rung, discount
from nearer.encoder import Encoder
from nearer.encoder.sources import RUN_FILE
from nearer.storage.sealed import read_sealed, write_sealed_json
from nearer.training import resume, train


@dataclass(frozen=True)
class Student:
    """What one is trained with. corpus: what it learns from; model: what it starts from."""

    name: str
    recipe: str
    corpus: Path
    settings: dict[str, Any]
    model: str
    teachers: Sequence[str] = ()


def train_student(work: Work, student: Student, *, stop_after: int | None = None) -> Path:
    """Its model's folder; a run that was interrupted or stopped goes on, one that ended is taken as it is."""
    run = work.out / "runs" / student.name
    if (run / MODEL).is_dir():
        return run / MODEL
    if (run / RUN_FILE).is_file():  # a folder without it was made by a process that was killed at once
        return resume(run, stop_after=stop_after, progress=work.progress).model
    common: dict[str, Any] = {"seed": work.seed, "select_on": [], "test_on": []}
    if work.plan.longest is not None:
        common["max_length"] = min(work.plan.longest, work.models.base.settings.max_length)
    pooling = {} if work.models.base.settings.pooling is None else {"pooling": work.models.base.settings.pooling}
    trained = train(
        student.recipe,
        student.corpus,
        model=student.model,
        teachers=list(student.teachers) or None,
        out=run,
        settings={**common, **pooling, **student.settings},
        stop_after=stop_after,
        progress=work.progress,
    )
    return trained.model


def train_by_halving(work: Work, collection: Collection, students: Sequence[Student], steps: int) -> dict[str, Path]:
    """The folders of the models that went on to the end, by student. steps: of each that does."""
    left, step = list(students), first_rung(steps)
    while len(left) > 1:
        rung = hold_rung(work, collection, left, step)
        work.say(str(rung))
        work.rungs.append(rung)
        left = [student for student in left if student.name in rung.kept]
        step *= 2
    return {student.name: train_student(work, student) for student in left}


def hold_rung(work: Work, collection: Collection, students: Sequence[Student], step: int) -> Rung:
    """Train all of them up to this step, compare them, and keep what was decided."""
    path = work.out / WORK / f"rung-{step:08d}.json"
    if path.is_file():
        return read_sealed(path, Rung, mend="remove it, and students are compared again")
    folders = {student.name: train_student(work, student, stop_after=step) for student in students}
    scores = {}
    for name, folder in folders.items():
        called = f"{name}-at-step-{step}"
        collection.add_encoder(called, Encoder.load(folder, device=work.models.base.device), called)
        scores[name] = measure_alone(collection, called, work.judged, work.test_weights)
        collection.remove_encoder(called)
    best = sorted(scores, key=lambda name: -scores[name])
    rung = Rung(step, scores, best[: len(best) // 2])
    write_sealed_json(path, asdict(rung))
    return rung


def measure_alone(
    collection: Collection, name: str, judged: Sequence[JudgedTest] = (), weights: Mapping[str, float] | None = None
) -> float:
    """The mean over all tests of an encoder's NDCG@10 × 100, without BM25 and reranker. weights: None: all alike."""
    encoder = collection.encoders[name]
    tests: list[AnyTest] = [*collection.tests.values(), *judged]
    figures: dict[str, float] = {}
    for test in tests:
        shown, answers = collection.shown_in(test)
        nearest = collection.nearest(encode_texts(encoder, test.queries), name, shown, best=CUT)
        found = nearest == answers[:, None]
        figures[test.name] = 100 * float(discount(np.where(found.any(axis=1), found.argmax(axis=1) + 1, 0)).mean())
    if weights is None:
        return fmean(figures.values())
    return sum(weights[test] * figure for test, figure in figures.items())
