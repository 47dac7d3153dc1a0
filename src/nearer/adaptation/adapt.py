"""`nearer adapt`: documents in, a test made of them, students trained on what judges say, a tournament, a set-up out.

    adapted = nearer.adapt("handbook/", "adapted", model="all-MiniLM-L6-v2", teachers=["all-mpnet-base-v2"])
    print(adapted)

Every stage keeps what it made in `out/work`. A run that was interrupted goes on there, if it is started again in the
same way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nearer.adaptation.documents import Documents, read_documents
from nearer.adaptation.judging import Collection, Kept
from nearer.adaptation.made_tests import hold_out, make_tests
from nearer.adaptation.models import check_language, count_weights, load_models
from nearer.adaptation.outcome import (
    Outcome,
    find_changes,
    measure_latency,
    write_documents,
    write_model,
)
from nearer.adaptation.page import write_outcome
from nearer.adaptation.passages import split_passages
from nearer.adaptation.plan import Plan, make_plan, measure_speeds, parse_budget
from nearer.adaptation.state import (
    MODEL,
    WORK,
    Say,
    Work,
    describe_run,
    digest,
    keep_plan,
    list_arguments,
    open_work,
    sample_passages,
)
from nearer.adaptation.students import train_students
from nearer.adaptation.tournament import (
    BASE,
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
from nearer.text import read_sentences

FEWEST_DOCUMENTS = 100
HELD_OUT, MOST_HELD_OUT = 1 / 3, 2500


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
            f"documents: {len(found):,} are too few: some are held out, the others are learnt from, and that needs "
            f"{FEWEST_DOCUMENTS}. With so few, compare encoders by hand (nearer rank)."
        )
    log = _read_log(queries)
    passages = [passage for document in found.documents for passage in split_passages(document)]
    models = load_models(model, teachers, judge, device)
    texts = [passage.titled for passage in passages]
    remarks = check_language(texts, models)
    for line in remarks:
        say(line)
    speeds = measure_speeds(texts, models)
    plan = make_plan(seconds, len(passages), speeds, on_gpu=models.base.device.type == "cuda")
    say(str(plan))
    if dry_run:
        return plan
    folder = Path(out)
    about = describe_run(passages, model, teachers, judge, log, budget, seed)
    work = open_work(folder, about)
    with written_by_us_alone(work / "lock", folder):
        plan = keep_plan(work, about, plan)
        chosen = sample_passages(passages, plan.passages, seed)
        reading = {"columns": columns, "encoding": encoding, "txt": txt}
        asked = list_arguments(documents, about, queries, len(log), reading)
        taking_part = models if plan.reranks else replace(models, cross=None)
        stages = Work(folder, taking_part, chosen, plan, seed, str(model), progress, say, asked, remarks, len(passages))
        try:
            return _run(stages, found, log, judge)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; the same command goes on in {folder}") from None
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror or error}).", argument="out") from None


def _run(work: Work, found: Documents, log: Sequence[str], judge: str | Path | None) -> Outcome:
    started = time.perf_counter()
    plan, say = work.plan, work.say
    held_out = hold_out(work.passages, share=HELD_OUT, most=MOST_HELD_OUT, random=work.random("hold out"))
    tests = make_tests(work.passages, held_out, work.words, queries=plan.queries, random=work.random("tests"))
    kept = Kept(work.out / WORK / "kept")
    collection = Collection([passage.titled for passage in work.passages], tests, kept, progress=work.progress)
    collection.cross = work.models.cross
    say(f"tests made of {int(held_out.sum()):,} passages that training never sees: {', '.join(collection.tests)}")
    collection.add_encoder(BASE, work.models.base, BASE)
    for name, teacher in work.models.teachers.items():
        collection.add_encoder(name, teacher, f"teacher-{digest(name)[:8]}")
    judges = [BASE, *work.models.teachers, LEXICAL, *([RERANKER] if work.models.cross else [])]
    first = {
        test.name: collection.measure(test, best=plan.best, by=[BASE, *work.models.teachers], key="before")
        for test in tests
    }
    weights, above = best_fusion(first, judges, BASE)
    say(f"judges to trust on this text: {_told(weights)}; {above:+.1f} points of NDCG@10 above the base")
    if plan.trains:
        train_students(work, collection, ~held_out, log, weights, above)
    for name, folder in work.students.items():
        collection.add_encoder(name, Encoder.load(folder, device=work.models.base.device), name)
    by = [BASE, *work.students]
    last = {test.name: collection.measure(test, best=plan.best, by=by, key="after") for test in tests}
    return _decide(work, found, collection, last, by, judge, weights, above, started)


def _decide(
    work: Work,
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
    contenders = all_contenders(by, reranker=work.models.cross is not None)
    standings = hold_tournament(tests, contenders, base, seed=work.seed)
    of_base = next(standing for standing in standings if standing.contender == base)
    chosen = choose(standings, base)
    alone = choose([standing for standing in standings if standing.contender.cost == (False, False)], base)
    encoder = collection.encoders[chosen.contender.encoder]
    write_model(work.out / MODEL, encoder, chosen.contender, work.models.cross, judge)
    write_documents(work.out, found.documents)
    outcome = Outcome(
        folder=work.out,
        model=work.out / MODEL,
        base=work.model,
        judge=None if work.models.cross is None else str(judge),
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
        latency=measure_latency(collection, list(by), work.models.cross, work.plan.best),
        changes=find_changes(collection, tests, base, chosen.contender),
        plan=asdict(work.plan),
        seconds=time.perf_counter() - started,
        trained=bool(work.students),
        asked=work.asked,
        remarks=work.remarks,
        all_passages=work.all_passages,
        weights=count_weights({name: collection.encoders[name] for name in by}, work.models.cross),
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
