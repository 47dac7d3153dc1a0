"""`nearer adapt`: documents in, a test made of them, students trained on what judges say, a tournament, a set-up out.

    adapted = nearer.adapt("handbook/", "adapted", model="all-MiniLM-L6-v2", teachers=["all-mpnet-base-v2"])
    print(adapted)

Every stage keeps what it made in `out/work`. A run that was interrupted goes on there, if it is started again in the
same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nearer.adaptation.documents import Documents, read_documents
from nearer.adaptation.judging import Collection, Kept
from nearer.adaptation.made_tests import hold_out, make_tests
from nearer.adaptation.material import draw_queries, find_training_views, write_material, write_pairs
from nearer.adaptation.outcome import (
    Outcome,
    check_language,
    count_weights,
    find_changes,
    measure_latency,
    write_documents,
    write_model,
)
from nearer.adaptation.page import write_outcome
from nearer.adaptation.passages import Passage, split_passages
from nearer.adaptation.plan import Plan, listed, make_plan, measure_speeds, parse_budget
from nearer.adaptation.state import WORK, describe_run, digest, keep_plan, list_arguments, open_work, sample_passages
from nearer.adaptation.tournament import (
    BASE,
    LISTS,
    PAIRS,
    Candidates,
    Contender,
    all_contenders,
    best_fusion,
    choose,
    hold_tournament,
)
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.search.fusion import LEXICAL, RERANKER
from nearer.storage.whole import written_by_us_alone
from nearer.teachers import CrossEncoder
from nearer.text import read_sentences
from nearer.training import resume, train

FEWEST_DOCUMENTS = 100
HELD_OUT, MOST_HELD_OUT = 1 / 3, 2500
WORTH_LEARNING = 0.5  # points that judges must stand above the base
FEWEST_PAIRS = 64
MODEL = "model"
Say = Callable[[str], None]


@dataclass
class _Work:
    """All that the stages share."""

    out: Path
    base: Encoder
    teachers: dict[str, Encoder]
    cross: CrossEncoder | None
    passages: list[Passage]
    plan: Plan
    seed: int
    model: str
    progress: bool
    say: Say
    asked: dict[str, Any]
    remarks: list[str]
    all_passages: int
    students: dict[str, Path] = field(default_factory=dict)

    def random(self, stage: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stage.encode()])


def adapt(
    documents: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    model: str | Path = "wiki-mini",
    teachers: Sequence[str | Path] = (),
    judge: str | Path | None = None,
    queries: str | Path | Sequence[str] | None = None,
    budget: str = "20min",
    columns: dict[str, str] | None = None,
    encoding: str = "utf-8",
    txt: Any = "auto",
    seed: int = 0,
    device: str | None = None,
    dry_run: bool = False,
    progress: bool = False,
    say: Say = lambda message: None,
) -> Outcome | Plan:
    """Make search better on a pile of documents, without labels; and prove it on documents that were kept back.

    Args:
        documents: Files and folders, as `nearer.adaptation.documents.read_documents` reads them.
        out: A folder for the model, the page and everything that was made; one that was interrupted goes on.
        model: The encoder to start from. It is kept as it is if nothing is better.
        teachers: Encoders that know more, from whose order of passages a student learns.
        judge: A cross-encoder, for the same and as a reranker.
        queries: A log of real queries, one a line (or in memory), without any labels.
        budget: The time that there is, such as `20min`. It decides how much is tried.
        columns: Which columns of tables are `text`, `title` and `id`; None guesses.
        encoding: Of text that is not UTF-8.
        txt: Whether a plain text file is one document (`file`) or has one on each `line`.
        seed: Decides all that is random.
        device: Where to compute; None takes a GPU if there is one.
        dry_run: Read, measure and return the plan; nothing is written.
        progress: Show bars.
        say: Is told what is found, line by line.

    Examples:
        >>> import json, nearer
        >>> nouns = ("harbour", "kettle", "violin", "garden")
        >>> rows = [{"text": f"The {noun} of house {n} is old. Nobody knows why."} for n in range(30) for noun in nouns]
        >>> with open("houses.jsonl", "w") as file:
        ...     _ = file.writelines(json.dumps(row) + "\\n" for row in rows)
        >>> nearer.adapt("houses.jsonl", "adapted", dry_run=True).passages
        120
    """
    seconds = parse_budget(budget)
    if seed < 0:
        raise SettingError(f"seed: {seed} is below 0.", argument="seed")
    found = read_documents(documents, columns=columns, encoding=encoding, txt=txt, progress=progress)
    say(str(found.account))
    if len(found) < FEWEST_DOCUMENTS:
        raise InputError(
            f"documents: {len(found):,} are too few to hold some out and learn from the others; {FEWEST_DOCUMENTS} are "
            "needed. With so few, compare encoders by hand (nearer rank).",
            argument="documents",
        )
    log = _read_log(queries)
    passages = [passage for document in found.documents for passage in split_passages(document)]
    base = Encoder.load(model, device=device)
    taught = {Path(str(name)).name: Encoder.load(name, device=device) for name in teachers}
    cross = None if judge is None else CrossEncoder.load(judge, device=device or "auto")
    texts = [passage.titled for passage in passages]
    remarks = check_language(texts, base, cross)
    for line in remarks:
        say(line)
    speeds = measure_speeds(texts, base, list(taught.values()), cross)
    plan = make_plan(seconds, len(passages), speeds, on_gpu=base.device.type == "cuda")
    say(str(plan))
    if dry_run:
        return plan
    folder = Path(out)
    about = describe_run(passages, model, teachers, judge, log, budget, seed)
    work = open_work(folder, about)
    with written_by_us_alone(work / "lock", folder):
        plan = keep_plan(work, about, plan)
        chosen = sample_passages(passages, plan.passages, seed)
        reranker = cross if plan.reranks else None
        reading = {"columns": columns, "encoding": encoding, "txt": txt}
        asked = list_arguments(documents, about, queries, len(log), reading)
        stages = _Work(
            folder, base, taught, reranker, chosen, plan, seed, str(model), progress, say, asked, remarks, len(passages)
        )
        try:
            return _run(stages, found, log, judge)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; the same command goes on in {folder}") from None
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror or error}).", argument="out") from None


def _run(work: _Work, found: Documents, log: Sequence[str], judge: str | Path | None) -> Outcome:
    started = time.perf_counter()
    plan, say = work.plan, work.say
    held_out = hold_out(work.passages, share=HELD_OUT, most=MOST_HELD_OUT, random=work.random("hold out"))
    tests = make_tests(work.passages, held_out, queries=plan.queries, random=work.random("tests"))
    kept = Kept(work.out / WORK / "kept")
    collection = Collection([passage.titled for passage in work.passages], tests, kept, progress=work.progress)
    collection.cross = work.cross
    say(f"tests made of {int(held_out.sum()):,} passages that training never sees: {', '.join(collection.tests)}")
    collection.add_encoder(BASE, work.base, BASE)
    for name, teacher in work.teachers.items():
        collection.add_encoder(name, teacher, f"teacher-{digest(name)[:8]}")
    judges = [BASE, *work.teachers, LEXICAL, *([RERANKER] if work.cross else [])]
    first = {
        test.name: collection.measure(test, best=plan.best, by=[BASE, *work.teachers], key="before") for test in tests
    }
    weights, above = best_fusion(first, judges, BASE)
    say(f"judges to trust on this text: {_told(weights)}; {above:+.1f} points of NDCG@10 above the base")
    if plan.trains:
        _train_students(work, collection, ~held_out, log, weights, above)
    for name, folder in work.students.items():
        collection.add_encoder(name, Encoder.load(folder, device=work.base.device), name)
    by = [BASE, *work.students]
    last = {test.name: collection.measure(test, best=plan.best, by=by, key="after") for test in tests}
    return _decide(work, found, collection, last, by, judge, weights, above, started)


def _train_students(
    work: _Work,
    collection: Collection,
    trained: np.ndarray[Any, np.dtype[np.bool_]],
    log: Sequence[str],
    weights: dict[str, float],
    above: float,
) -> None:
    """One learns the judges' lists if these know more than the base; one learns pairs if no model teaches."""
    plan, say = work.plan, work.say
    views = find_training_views(work.passages, trained, work.random("views"))
    learns_lists = above >= WORTH_LEARNING
    learns_pairs = not work.teachers and work.cross is None
    steps = plan.steps // (learns_lists + learns_pairs or 1)
    if learns_lists:
        queries = draw_queries(views, log, plan.to_learn, work.random("queries"))
        folder, per_query = work.out / LISTS, plan.per_query
        count = write_material(
            folder,
            collection,
            queries,
            trained,
            weights,
            best=listed(plan),
            by=[BASE, *work.teachers],
            fewest=2 * per_query,
            key=LISTS,
            reranked=bool(weights.get(RERANKER)),
        )
        if count >= plan.batch:
            settings = {"batch_size": plan.batch, "passages_per_query": per_query, "max_steps": steps}
            work.students[LISTS] = _train(work, LISTS, folder, settings, teachers=_best_teacher(work, weights))
        else:
            say(f"no student learns lists: {count:,} are too few for a batch of {plan.batch}")
    else:
        say(
            "no student learns lists: no judge at hand knows more of this text than the base (a teacher or judge might)"
        )
    if learns_pairs:
        path = work.out / "pairs.jsonl"
        count = write_pairs(path, views)
        if count >= FEWEST_PAIRS:
            paired: dict[str, Any] = {"batch_size": min(32, count // 2), "max_steps": steps, "watch_on": []}
            work.students[PAIRS] = _train(work, "simcse-pairs-wiki-mini", path, paired, name=PAIRS)
        else:
            say(f"no student learns pairs: the text has {count:,} titles, headings or openings")


def _train(
    work: _Work,
    recipe: str,
    corpus: Path,
    settings: dict[str, Any],
    *,
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
    pooling = {} if work.base.settings.pooling is None else {"pooling": work.base.settings.pooling}
    trained = train(
        recipe,
        corpus,
        model=work.model,
        teachers=list(teachers) or None,
        out=run,
        settings={**common, **pooling, **settings},
        progress=work.progress,
    )
    return trained.model


def _best_teacher(work: _Work, weights: dict[str, float]) -> list[str]:
    """Whose order of the whole batch is learnt beside the lists: the teacher that counts most."""
    names = sorted(work.teachers, key=lambda name: -weights.get(name, 0.0))
    return [work.teachers[names[0]].name] if names and weights.get(names[0]) else []


def _decide(
    work: _Work,
    found: Documents,
    collection: Collection,
    tests: dict[str, Candidates],
    by: Sequence[str],
    judge: str | Path | None,
    weights: dict[str, float],
    above: float,
    started: float,
) -> Outcome:
    base = Contender(BASE)
    contenders = all_contenders(by, reranker=work.cross is not None)
    standings = hold_tournament(tests, contenders, base, seed=work.seed)
    of_base = next(standing for standing in standings if standing.contender == base)
    chosen = choose(standings, base)
    alone = choose([standing for standing in standings if standing.contender.cost == (False, False)], base)
    encoder = collection.encoders[chosen.contender.encoder]
    write_model(work.out / MODEL, encoder, chosen.contender, work.cross, judge)
    write_documents(work.out, found.documents)
    outcome = Outcome(
        folder=work.out,
        model=work.out / MODEL,
        base=work.model,
        judge=None if work.cross is None else str(judge),
        account=found.account.to_dict(),
        passages=collection.passages,
        tests={
            name: {"queries": len(test), "overlap": test.overlap, "base": of_base.by_test[name]}
            for name, test in collection.tests.items()
        },
        judges=weights,
        judges_above=above,
        standings=standings,
        chosen=chosen,
        encoder_alone=alone,
        latency=measure_latency(collection, list(by), work.cross, work.plan.best),
        changes=find_changes(collection, tests, base, chosen.contender),
        plan=asdict(work.plan),
        seconds=time.perf_counter() - started,
        trained=bool(work.students),
        asked=work.asked,
        remarks=work.remarks,
        all_passages=work.all_passages,
        weights=count_weights({name: collection.encoders[name] for name in by}, work.cross),
    )
    write_outcome(outcome)
    return outcome


def _told(weights: dict[str, float]) -> str:
    names = {LEXICAL: "BM25", RERANKER: "the cross-encoder", BASE: "the base"}
    return " + ".join(f"{weight:g} × {names.get(judge, judge)}" for judge, weight in weights.items())


def _read_log(queries: str | Path | Sequence[str] | None) -> list[str]:
    if queries is None:
        return []
    return list(dict.fromkeys(read_sentences(queries)))
