"""What adapt ends with: the model's folder with its set-up, figures with intervals, and queries whose order changed."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from nearer.adaptation.documents import Document
from nearer.adaptation.judging import Collection
from nearer.adaptation.label_figures import LABELS, LabelFigures
from nearer.adaptation.plan import FEWEST_STEPS, MOST_STEPS
from nearer.adaptation.refit import Refit
from nearer.adaptation.tournament import (
    BASE,
    JUDGED,
    Contender,
    Measured,
    Rung,
    Standing,
    discount,
    least_gain,
)
from nearer.encoder import Encoder
from nearer.search.fusion import LEXICAL, RERANKER
from nearer.search.setup import RerankerSetup, SearchSetup, write_setup
from nearer.storage.whole import whole_file
from nearer.teachers import CrossEncoder

DOCUMENTS = "documents.jsonl"  # all that were read, for `search build`
SHOWN_CHANGES = 8  # for better, and as many for worse
TIMED = 10  # queries


@dataclass(frozen=True)
class Change:
    """A query whose answer moved. before, after: its rank, from 1; 0: not among the candidates."""

    test: str
    query: str
    answer: str
    before: int
    after: int


@dataclass(frozen=True)
class Outcome:
    """What was found, tried and chosen.

    Attributes:
        folder: Where everything lies.
        model: The encoder's folder with its set-up, which `search build`, `rank` and `serve` take as it is.
        base: The model it started from.
        judge: The cross-encoder that took part, or None.
        account: What was read.
        passages: How many were searched.
        tests: By name, the number of queries, their overlap with the answers, how much a point counts, and the base's
            NDCG@10.
        judges: How much each judge counts in the lists that students learnt.
        judges_above: Points of NDCG@10 that these judges together stand above the base.
        standings: All set-ups by falling gain.
        chosen: The one that was taken.
        encoder_alone: The best encoder without anything beside it.
        latency: By encoder and `reranker`, milliseconds for a query.
        changes: Queries whose answer rose or fell most.
        plan: What was planned.
        seconds: That it took since the documents were read.
        trained: Whether any student was trained.
        asked: The documents, models and settings that it was started with; `log`: how many queries the log has.
        remarks: What is odd about the text and the models.
        all_passages: How many the documents have; with little time only some of them are searched.
        weights: By encoder and `reranker`, how many weights it has.
        labels: What labelled queries say, where there are any.
        written: By style, how many queries of the language model students learnt from.
        rungs: Where students were compared on their way, and which were dropped.
        refit: The chosen student trained again on all documents, where there was time.
        pretrained: What the base learnt before it became a student: `tsdae`, `teacher` or nothing.
        teachers: Those that are certainly better than the base themselves, on the tests with known answers. They take
            part in the choice only if asked for (serve_teachers), and are not here then.
    """

    folder: Path
    model: Path
    base: str
    judge: str | None
    account: dict[str, object]
    passages: int
    tests: dict[str, dict[str, float]]
    judges: dict[str, float]
    judges_above: float
    standings: list[Standing]
    chosen: Standing
    encoder_alone: Standing
    latency: dict[str, float]
    changes: list[Change]
    plan: dict[str, Any]
    seconds: float
    trained: bool
    asked: dict[str, Any]
    remarks: list[str]
    all_passages: int
    weights: dict[str, int]
    labels: LabelFigures | None = None
    written: dict[str, int] = field(default_factory=dict)
    rungs: list[Rung] = field(default_factory=list)
    refit: Refit | None = None
    pretrained: str | None = None
    teachers: list[Standing] = field(default_factory=list)

    @property
    def allows_training(self) -> bool:
        """Whether the most steps that a student may take are enough to train one."""
        return bool(self.plan.get("most_steps", MOST_STEPS) >= FEWEST_STEPS)

    @property
    def is_better(self) -> bool:
        """Whether anything was chosen instead of the base: it must be better with certainty where it was chosen."""
        return self.chosen.contender != Contender(BASE)

    def __str__(self) -> str:
        if not self.is_better:
            return f"nothing that was tried is better than {self.base} with certainty: it is kept ({self.model})"
        on_tests = f"{_gain(self.chosen)} on tests made of the text"
        if self.labels is None:
            return f"{self.chosen.contender.name}: {on_tests} over {self.base}; {self.model}"
        by_labels = f"{_gain(self.labels.chosen)} by {self.labels.measured:,} labelled queries that chose nothing"
        return f"{self.chosen.contender.name}: {by_labels}, {on_tests}, over {self.base}; {self.model}"

    def to_dict(self) -> dict[str, Any]:
        """For a file of JSON."""
        return {**asdict(self), "folder": str(self.folder), "model": str(self.model)}


def _gain(standing: Standing) -> str:
    return f"{standing.gain:+.1f} points of NDCG@10 ({standing.low:+.1f} to {standing.high:+.1f})"


def known_gain(outcome: Outcome, standing: Standing) -> float:
    """Points of NDCG@10 above the base, weighted mean over the tests with known answers."""
    known = {name: test for name, test in outcome.tests.items() if not name.endswith(JUDGED)}
    total = sum(test["weight"] for test in known.values())
    if not total:
        return fmean(standing.by_test[name] - test["base"] for name, test in known.items())
    gains = (test["weight"] * (standing.by_test[name] - test["base"]) for name, test in known.items())
    return sum(gains) / total


def find_better_teachers(outcome: Outcome) -> list[Standing]:
    """Teachers that stand so far above what was chosen that it counts."""
    chosen = known_gain(outcome, outcome.chosen)
    return [standing for standing in outcome.teachers if least_gain(known_gain(outcome, standing)) > chosen]


def tell_teachers(outcome: Outcome) -> list[str]:
    """Of each teacher that is better than what was chosen, what it gains and costs."""
    chosen = outcome.chosen.contender
    lines = []
    for standing in find_better_teachers(outcome):
        name = standing.contender.encoder
        slower = outcome.latency[name] / outcome.latency[chosen.encoder]
        heavier = outcome.weights[name] / outcome.weights[chosen.encoder]
        lines.append(
            f"on the tests with known answers {standing.contender.name} itself gains "
            f"{known_gain(outcome, standing):+.1f} points, {chosen.name} {known_gain(outcome, outcome.chosen):+.1f}; a "
            f"query's vector takes {slower:.1f} times as long, and the model has {heavier:.1f} times the weights"
        )
    return lines


def tell_labels(outcome: Outcome) -> list[str]:
    """What labels say, line by line; nothing where there are none."""
    labels = outcome.labels
    if labels is None:
        return []
    if labels.chose:
        who = f"chosen by {labels.chose:,} labelled queries, measured by {labels.measured:,} others"
    else:
        who = f"chosen by the made tests, measured by {labels.measured:,} labelled queries"
    named = {
        labels.chosen.contender: f"{labels.chosen.contender.name}",
        labels.alone.contender: f"{labels.alone.contender.name} alone",
        labels.standings[0].contender: f"{labels.standings[0].contender.name} (the best by these labels)",
        Contender(BASE): outcome.base,
    }
    figures = {standing.contender: standing.by_test[LABELS] for standing in labels.standings}
    told = ", ".join(f"{figures[contender]:.1f} for {name}" for contender, name in named.items())
    if labels.refit is not None:
        again = f"{labels.chosen.contender.name} trained again on all documents"
        told += f", {labels.refit.by_test[LABELS]:.1f} for {again}"
    lines = [f"{who}: NDCG@10 {told}"]
    order = f"of made tests and labels over the {len(outcome.standings)} set-ups"
    if labels.correlation is None:
        return [*lines, f"no Spearman correlation {order}: one of them puts all alike"]
    return [*lines, f"Spearman correlation {order}: {labels.correlation:.2f}"]


def write_model(
    folder: Path, encoder: Encoder, contender: Contender, cross: CrossEncoder | None, judge: str | Path | None
) -> None:
    """The encoder with its set-up, which names the reranker by its path or hub name; it is not copied."""
    encoder.save(folder, overwrite=True)
    reranker = None
    if contender.reranker and judge is not None and cross is not None:
        known = Path(judge).resolve() if Path(judge).is_dir() else judge
        reranker = RerankerSetup(model=str(known), weight=contender.reranker)
    write_setup(folder, SearchSetup(lexical_weight=contender.lexical, reranker=reranker))


def write_documents(folder: Path, documents: Sequence[Document]) -> None:
    """All documents as one file that `search build` reads, whatever kinds of files they came from."""
    with whole_file(folder / DOCUMENTS) as partial, open(partial, "wb") as file:
        for document in documents:
            record = {"_id": document.id, "title": document.title, "text": document.text}
            # halves of a character, which UTF-8 has not, as JSON writes them
            file.write((json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


def measure_latency(
    collection: Collection, encoders: Sequence[str], cross: CrossEncoder | None, candidates: int
) -> dict[str, float]:
    """Milliseconds of one query alone, the median of a few: its vector, BM25, and reading the candidates."""
    queries = [query for test in collection.tests.values() for query in test.queries][:TIMED]

    def timed(work: Any) -> float:
        work(queries[0])
        found = []
        for query in queries:
            started = time.perf_counter()
            work(query)
            found.append(1000 * (time.perf_counter() - started))
        return statistics.median(found)

    latency = {name: timed(lambda query, name=name: collection.encoders[name].encode([query])) for name in encoders}
    latency[LEXICAL] = timed(lambda query: collection.lexical.top([query], candidates))
    if cross is not None:
        pairs = [(0, number) for number in range(min(candidates, collection.passages))]
        latency[RERANKER] = timed(lambda query: cross.score([query], collection.texts, pairs))
    return latency


def find_changes(
    texts: Sequence[str],
    tests: Mapping[str, tuple[Sequence[str], Measured]],
    base: Contender,
    chosen: Contender,
) -> list[Change]:
    """Those that moved most, for better first. tests: by name, queries and what they may find among the texts."""
    found = []
    for name, (queries, candidates) in tests.items():
        before, after = (candidates.ranks(contender.weights) for contender in (base, chosen))
        for row in np.flatnonzero(before != after).tolist():
            answer = texts[candidates.answer(row)]
            found.append(Change(name, queries[row], answer[:300], int(before[row]), int(after[row])))
    found.sort(key=_weight)
    best, worst = found[:SHOWN_CHANGES], found[::-1][:SHOWN_CHANGES]
    return [each for each in best if _weight(each) < 0] + [each for each in worst if _weight(each) > 0]


def _weight(change: Change) -> float:
    """How much of the gain it took: negative for better."""
    before, after = discount(np.array([change.before, change.after]))
    return float(before - after)
