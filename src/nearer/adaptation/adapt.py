"""`nearer adapt`: documents in, a test made of them, students trained on what judges say, a tournament, a set-up out.

    adapted = nearer.adapt("handbook/", "adapted", model="all-MiniLM-L6-v2", teachers=["all-mpnet-base-v2"])
    print(adapted)

Every stage keeps what it made in `out/work`. A run that was interrupted goes on there, if it is started again in the
same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from nearer.adaptation.documents import Documents, read_documents
from nearer.adaptation.label_figures import FEWEST_TO_CHOOSE
from nearer.adaptation.labels import Given, Labels, key_of, match_labels, read_labels
from nearer.adaptation.made_tests import AskedIn
from nearer.adaptation.models import check_language, load_models
from nearer.adaptation.outcome import Outcome
from nearer.adaptation.passages import split_passages
from nearer.adaptation.plan import (
    MOST_QUERIES,
    MOST_STEPS,
    Plan,
    make_plan,
    parse_budget,
    told_seconds,
)
from nearer.adaptation.speeds import Speeds, measure_speeds
from nearer.adaptation.stages import run_stages
from nearer.adaptation.state import (
    Pretraining,
    Say,
    Work,
    describe_run,
    find_plan,
    keep_plan,
    name_file,
    open_work,
    sample_passages,
)
from nearer.adaptation.workforce import EngineName, Workforce, check_engine, make_workforce
from nearer.adaptation.writing import Writer
from nearer.errors import InputError, SettingError
from nearer.ray_runtime import RayError
from nearer.storage.whole import written_by_us_alone
from nearer.text import read_sentences

ChooseBy = Literal["labels", "tests"]
FEWEST_DOCUMENTS = 100
MOST_BEYOND = 1.5  # times the budget that a plan may take without a word


def adapt(
    documents: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    model: str | Path = "wiki-mini",
    teachers: Sequence[str | Path] = (),
    judge: str | Path | None = None,
    queries: str | Path | Sequence[str] | None = None,
    labels: Given | None = None,
    choose_by: ChooseBy | None = None,
    llm: str | Path | None = None,
    llm_test: bool = False,
    pretrain: Pretraining | None = None,
    serve_teachers: bool = False,
    pooling: str | None = None,
    asked_in: AskedIn | None = None,
    budget: str = "20min",
    most_steps: int | None = None,
    most_queries: int = MOST_QUERIES,
    columns: dict[str, str] | None = None,
    encoding: str = "utf-8",
    txt: Any = "auto",
    seed: int = 0,
    device: str | None = None,
    engine: EngineName = "process",
    workers: int | None = None,
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
        labels: Queries with the documents that answer them: a folder or file, or in memory (query to ids). They choose
            the set-up with one half and tell its gain with the other. Nothing is trained on them.
        choose_by: `tests`: labels only measure what the made tests choose. None: labels choose if there are enough.
        llm: A language model that writes queries to learn from: a folder, a GGUF file or a hub name.
        llm_test: Let it write a test as well. Small models repeat the passages' words, which misleads the choice.
        pretrain: What the base learns first, from the text's sentences in a quarter of the students' time: `tsdae`, or
            `teacher`, the trusted teacher's order of them. `none`: nothing. None: `teacher` for a raw base that has
            one, if there is time for 80 steps.
        serve_teachers: Let a teacher be chosen itself, with BM25 and reranker or without, if it is better than all that
            is as fast as the base. Tests as judged are left out then: a teacher would agree with itself.
        pooling: Of the base, if it is a plain checkpoint, which has none (`mean`, `cls` …); else in place of its own.
        asked_in: Whose words people ask in: the `documents`', or their `own`. Only such tests are made then; None
            makes both.
        budget: The time that there is, such as `20min`. It decides how much is tried.
        most_steps: The most steps that a student takes, whatever the budget; below 20 none is trained. None: 2,000, or
            8,000 for a raw base.
        most_queries: The most queries that students learn from.
        columns: Which columns of tables are `text`, `title` and `id`; None guesses.
        encoding: Of text that is not UTF-8.
        txt: Whether a plain text file is one document (`file`) or has one on each `line`.
        seed: Decides all that is random.
        device: Where to compute; None takes a GPU if there is one.
        engine: `ray`: workers of Ray encode all texts and score pairs, on this machine or on a cluster
            (docs/large-corpora.md). Training and queries stay in this process.
        workers: Of Ray; None takes one for each GPU, or two.
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
    check_engine(engine, workers, device)
    if llm_test and llm is None:
        raise SettingError(
            "llm_test: there is no language model to write a test; name one (--llm).", argument="llm_test"
        )
    for name, chosen, words in (("pretrain", pretrain, Pretraining), ("asked_in", asked_in, AskedIn)):
        kinds = get_args(words)
        if chosen not in (None, *kinds):
            raise SettingError(f"{name}: {chosen!r} is not one of {', '.join(kinds)}.", argument=name)
    if pretrain == "teacher" and not teachers:
        raise SettingError("pretrain: there is no teacher to learn from; name one (--teacher).", argument="pretrain")
    if serve_teachers and not teachers:
        raise SettingError(
            "serve_teachers: there is no teacher that could serve; name one with --teacher.", argument="serve_teachers"
        )
    for name, value, fewest in (("seed", seed, 0), ("most_steps", most_steps, 0), ("most_queries", most_queries, 1)):
        if value is not None and value < fewest:
            raise SettingError(f"{name}: {value} is below {fewest}.", argument=name)
    found = read_documents(documents, columns=columns, encoding=encoding, txt=txt, progress=progress)
    say(str(found.account))
    if len(found) < FEWEST_DOCUMENTS:
        raise InputError(
            f"documents: {len(found):,} are too few: some are held out, the others are learnt from, and that needs "
            f"{FEWEST_DOCUMENTS}. With so few, compare encoders by hand (nearer rank)."
        )
    labelled, choosing = _look_at_labels(labels, choose_by, found)
    log = _read_log(queries, labelled, say)
    passages = [passage for document in found.documents for passage in split_passages(document)]
    models = load_models(model, teachers, judge, device, pooling)
    texts = [passage.titled for passage in passages]
    remarks = check_language(texts, models)
    for line in [*remarks, *([] if labelled is None else labelled.remarks)]:
        say(line)
    writer = None if llm is None else Writer(str(llm), seed=seed, device=str(models.base.device))
    folder = Path(out)
    settings: dict[str, Any] = {
        "model": str(model),
        "teachers": [str(teacher) for teacher in teachers],
        "judge": None if judge is None else str(judge),
        "llm": None if llm is None else str(llm),
        "llm_test": llm_test,
        "pretrain": pretrain,
        "budget": budget,
        "seed": seed,
        # a run of a version that had no such setting goes on
        **({} if most_steps is None else {"most_steps": most_steps}),
        **({} if pooling is None else {"pooling": pooling}),
        **({"serve_teachers": True} if serve_teachers else {}),
        **({} if asked_in is None else {"asked_in": asked_in}),
        **({} if most_queries == MOST_QUERIES else {"most_queries": most_queries}),
    }
    about = describe_run(passages, log, labelled, choosing, settings)
    always = set() if labelled is None else labelled.documents
    plan = None if dry_run else find_plan(folder, about)
    with make_workforce(engine, models, workers=workers, device=device) as workforce:
        if plan is None:
            plan = make_plan(
                seconds,
                len(passages),
                _share(measure_speeds(texts, models, None if writer is None else writer.measure(passages)), workforce),
                on_gpu=models.base.device.type == "cuda",
                labelled=0 if labelled is None else len(labelled),
                always=sum(passage.document in always for passage in passages),
                llm_test=llm_test,
                most_steps=MOST_STEPS if most_steps is None else most_steps,
                most_queries=most_queries,
            )
        say(str(plan))
        if models.cross is not None and not plan.reranks:
            say("the judge takes no part: it is too slow here for this budget; a longer budget or a GPU allows it")
        if labelled is not None and plan.labelled < len(labelled):
            few = f"{plan.labelled:,} of {len(labelled):,} labelled queries are asked; a longer budget allows all"
            labelled.remarks.append(few)
            say(few)
        if plan.total_seconds > MOST_BEYOND * seconds:
            least = told_seconds(plan.total_seconds)
            long = f"even the smallest plan takes about {least}, more than the budget ({budget})"
            remarks.append(long)
            say(long)
        if dry_run:
            return plan
        del texts  # the stages have their own
        work = open_work(folder)
        with written_by_us_alone(work / "lock", folder):
            keep_plan(work, about, plan)
            stages = Work(
                out=folder,
                documents=found,
                passages=sample_passages(passages, plan.passages, seed, always),
                all_passages=len(passages),
                log=log,
                labels=None if labelled is None else labelled.draw(plan.labelled, np.random.default_rng([seed, 2])),
                labels_choose=choosing,
                model=str(model),
                judge=settings["judge"],
                models=models if plan.reranks else replace(models, cross=None),
                plan=plan,
                seed=seed,
                progress=progress,
                say=say,
                asked={
                    "documents": [
                        str(each) for each in ([documents] if isinstance(documents, str | Path) else documents)
                    ],
                    **settings,
                    "queries": name_file(queries),
                    "log": len(log),
                    "labels": name_file(labels),
                    "choose_by": choose_by,
                    "columns": columns,
                    "encoding": encoding,
                    "txt": txt,
                },
                remarks=remarks,
                writer=writer,
                pretrain=pretrain,
                serve_teachers=serve_teachers,
                workforce=workforce,
            )
            try:
                return run_stages(stages)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"stopped; the same command goes on in {folder}") from None
            except RayError as error:
                raise RayError(f"{error} What came before is kept: the same command goes on in {folder}.") from None
            except OSError as error:
                raise InputError(f"{folder}: cannot be written ({error.strerror or error}).", argument="out") from None


def _share(speeds: Speeds, workforce: Workforce) -> Speeds:
    """What this process was measured to take, by a whole workforce."""
    times = workforce.speedup
    pair = None if speeds.pair is None else speeds.pair / times
    return replace(speeds, passage=speeds.passage / times, taught=speeds.taught / times, pair=pair, speedup=times)


def _look_at_labels(given: Given | None, choose_by: ChooseBy | None, found: Documents) -> tuple[Labels | None, bool]:
    """The labels of documents that are there, and whether they choose."""
    if given is None:
        if choose_by == "labels":
            raise SettingError("choose_by: there are no labels; give some (--labels).", argument="choose_by")
        return None, False
    ids = [document.id for document in found.documents]
    labels = match_labels(read_labels(given), ids, found.account.duplicate_of)
    enough = len(labels) >= FEWEST_TO_CHOOSE
    few = f"{labels.source}: {len(labels):,} labelled queries are too few to choose by"
    if choose_by == "labels" and not enough:
        raise InputError(
            f"{few}; {FEWEST_TO_CHOOSE} are needed. Without choose_by (--choose-by) they measure what the made tests "
            "choose.",
            argument="labels",
        )
    if choose_by is None and not enough:
        labels.remarks.append(f"{few} ({FEWEST_TO_CHOOSE} are needed): made tests choose, and all labels measure")
    return labels, choose_by != "tests" and enough


def _read_log(queries: str | Path | Sequence[str] | None, labels: Labels | None, say: Say) -> list[str]:
    """Without labelled queries: what is measured with is not learnt from."""
    if queries is None:
        return []
    reading = read_sentences(queries, argument="queries")
    log = list(dict.fromkeys(reading))
    if not log:
        raise InputError(f"{reading.source}: has no queries; leave the log out, or give another.", argument="queries")
    if reading.report.dropped:
        say(str(reading.report))
    if labels is None:
        return log
    kept = [query for query in log if key_of(query) not in labels.keys]
    if len(kept) < len(log):
        labels.remarks.append(f"{len(log) - len(kept):,} queries of the log have labels and are not learnt from")
    return kept
