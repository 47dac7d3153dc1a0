"""The chosen student once more, with all documents: those that the tests held out are a third of a small text.

What the tests say of a student is said of one that never saw their documents; the one that is handed over has seen
them. These tests cannot measure its gain any more, only labels can. But it must do no worse in them than the student
that did not know their documents, or it is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.halving import Student, measure_alone, train_student
from nearer.adaptation.judging import Collection
from nearer.adaptation.material import draw_queries
from nearer.adaptation.state import WORK, Work
from nearer.adaptation.students import find_answerable_views, write_student_lists
from nearer.adaptation.tournament import LISTS, REFIT
from nearer.encoder import Encoder
from nearer.storage.sealed import read_sealed_json, write_sealed_json

LEAST_HELD_OUT = 0.1  # share of the passages: below, those that were held out teach nothing new


@dataclass(frozen=True)
class Refit:
    """A student that was trained again.

    student: whose settings it has; before, after: weighted mean over the tests of NDCG@10 × 100, alone, of the student
    and of itself, which knows their documents; kept: whether it is what is handed over.
    """

    student: str
    before: float
    after: float
    kept: bool


def may_refit(work: Work, chosen: str, students: Sequence[Student], held_out: NDArray[np.bool_], left: float) -> bool:
    """Whether it is worth it, and there is time; an interrupted run goes on as it began.

    chosen: the encoder's name; left: seconds that the budget would leave after training as long as before.
    """
    if not any(student.name == chosen and student.recipe == LISTS for student in students):
        return False
    path = work.out / WORK / "refit.json"
    if not path.is_file():
        write_sealed_json(path, {"refit": bool(held_out.mean() >= LEAST_HELD_OUT and left > 0)})
    return bool(read_sealed_json(path, "remove it, and it is decided again")["refit"])


def refit(
    work: Work, collection: Collection, chosen: str, students: Sequence[Student], weights: Mapping[str, float]
) -> Refit | None:
    """Train it, and add it to the collection if it is kept; None where there is too little to learn from."""
    everything = np.ones(collection.passages, dtype=bool)
    views = find_answerable_views(work, collection, everything, weights, REFIT)
    queries = draw_queries(views, work.log, work.plan.to_learn, work.random("queries"), work.written)
    folder = work.out / f"{LISTS}-of-all"
    if not write_student_lists(work, collection, everything, queries, dict(weights), folder, REFIT):
        return None
    model = next(student for student in students if student.name == chosen)
    work.say(f"{chosen} is trained again, with the documents that were held out")
    trained = train_student(work, replace(model, name=REFIT, corpus=folder))
    collection.add_encoder(REFIT, Encoder.load(trained, device=work.models.base.device), REFIT)
    before, after = (measure_alone(collection, name, work.judged, work.test_weights) for name in (chosen, REFIT))
    made = Refit(chosen, before, after, kept=after >= before)
    if not made.kept:
        collection.remove_encoder(REFIT)
        work.say(f"it does worse than {chosen} on the tests ({after:.1f}, not {before:.1f}), so {chosen} is kept")
    return made
