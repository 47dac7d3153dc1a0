"""What to do after a run of adapt: what would help more, the commands of the next step, and the one that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from nearer.adaptation.outcome import DOCUMENTS, Outcome, tell_teachers
from nearer.adaptation.tournament import JUDGED, OTHER_WORDS
from nearer.report.markup import count

FEW_DOCUMENTS = 1000  # below, intervals are wide and there is little to learn from
FEW_KINDS = 3  # of tests: each is biased in its own way
INDEX = "documents.index"
TOKENS = 256  # of a passage, about as long as those of the tests


@dataclass(frozen=True)
class Advice:
    """title: what would help; words: why; option: what to add to the command, or nothing."""

    title: str
    words: str
    option: str = ""


def find_advice(outcome: Outcome) -> list[Advice]:
    """What this run had not, what helps most first."""
    return [*_whose_words(outcome), *_teachers(outcome), *_models(outcome), *_time(outcome), *_text(outcome)]


def _whose_words(outcome: Outcome) -> Iterator[Advice]:
    """One question, where its answer may change the choice."""
    if outcome.asked.get("asked_in") is not None or outcome.labels is not None:
        return
    made = [name for name in outcome.tests if not name.endswith(JUDGED)]
    best = {}
    for words in ("documents", "own"):
        tests = [name for name in made if name.endswith(OTHER_WORDS) == (words == "own")]
        if not tests:
            return
        standing = max(outcome.standings, key=lambda each: sum(each.by_test[name] for name in tests))
        best[words] = standing.contender.name
    if best["documents"] != best["own"]:
        yield Advice(
            "One answer: do people ask in the documents' words or in their own?",
            f"Tests in the documents' words are won by {best['documents']}, tests in other words by {best['own']}. "
            "Say which they do (documents or own), and only such tests are made.",
            "--asked-in documents",
        )


def _teachers(outcome: Outcome) -> Iterator[Advice]:
    """A better encoder is at hand, if it may cost more."""
    for line in tell_teachers(outcome):
        yield Advice(
            "The teacher itself",
            f"{line[0].upper()}{line[1:]}. If that is not too slow, let it take part in the choice.",
            "--serve-teachers",
        )


def _models(outcome: Outcome) -> Iterator[Advice]:
    asked = outcome.asked
    if not asked["teachers"]:
        yield Advice(
            "A teacher",
            "An encoder that knows more than the base. A student learns its order of passages and stays as fast as "
            "the base.",
            "--teacher all-mpnet-base-v2",
        )
    if asked["judge"] is None:
        yield Advice(
            "A judge",
            "A cross-encoder reads query and passage together. A student learns from it, and it can rerank the best "
            "passages of a search.",
            "--judge ms-marco-MiniLM-L-12-v2",
        )
    if not asked["log"]:
        yield Advice(
            "A log of queries",
            "What people really ask, one query a line, without labels. A student then learns from their words instead "
            "of the documents'.",
            "--queries log.txt",
        )
    if asked["llm"] is None and not asked["log"]:
        yield Advice(
            "A language model",
            "It writes queries to learn from, in other words than the documents', where there is no log.",
            "--llm Qwen/Qwen2.5-1.5B-Instruct",
        )
    if outcome.labels is None:
        yield Advice(
            "Labelled queries",
            "Queries with the ids of the documents that answer them. With 50 or more they choose the set-up instead of "
            "the made tests; with fewer they measure it.",
            "--labels labels.jsonl",
        )
    for remark in outcome.remarks:
        yield Advice("Another model", f"{remark}.")


def _time(outcome: Outcome) -> Iterator[Advice]:
    budget, plan = outcome.asked["budget"], outcome.plan
    more = "--budget 2h"
    if outcome.asked["judge"] is not None and not plan["reranks"]:
        yield Advice(
            "Time for the judge",
            f"It is too slow on this machine for a budget of {budget}, so it took no part. A longer "
            "budget or a GPU lets it.",
            more,
        )
    if not outcome.allows_training:
        yield Advice("Training", "No student was trained, as you asked (--most-steps).")
    elif not plan["steps"]:
        yield Advice(
            "Time to train",
            f"A budget of {budget} is too short on this machine, so no student was trained. A longer budget or a GPU "
            "allows it.",
            more,
        )
    if outcome.passages < outcome.all_passages:
        yield Advice(
            "Time for all of the text",
            f"{outcome.passages:,} of {count(outcome.all_passages, 'passage')} were searched and learnt from. A longer "
            "budget or a GPU allows more.",
            more,
        )


def _text(outcome: Outcome) -> Iterator[Advice]:
    kept = int(str(outcome.account["kept"]))
    if kept < FEW_DOCUMENTS:
        yield Advice(
            "More text",
            f"{count(kept, 'document')} make small tests with wide intervals, and little to learn from.",
        )
    kinds = {name.removesuffix(f" {OTHER_WORDS}") for name in outcome.tests if not name.endswith(JUDGED)}
    if len(kinds) < FEW_KINDS:
        yield Advice(
            "More kinds of tests",
            f"Only {count(len(kinds), 'kind')} of query could be found in the text ({', '.join(sorted(kinds))}). "
            "Documents with titles, headings or questions give more.",
        )


def next_commands(outcome: Outcome) -> str:
    """Build an index with the set-up, ask it, serve it."""
    model, index = outcome.model, outcome.folder / INDEX
    return "\n".join(
        [
            _command("search", "build", model, outcome.folder / DOCUMENTS, "--out", index, "--passages", TOKENS),
            _command("search", "query", index, "what do you want to know?"),
            _command("serve", model, "--index", index),
        ]
    )


def repeat_command(outcome: Outcome) -> str:
    """With another folder, since a finished run is not done again in its own."""
    asked = outcome.asked
    arguments: list[object] = ["adapt", *asked["documents"], "--model", asked["model"]]
    for teacher in asked["teachers"]:
        arguments += ["--teacher", teacher]
    columns = asked["columns"] and ",".join(f"{name}={column}" for name, column in asked["columns"].items())
    usual = {"encoding": "utf-8", "txt": "auto"}
    of_training = ("llm", "pretrain", "pooling", "asked_in", "budget", "most_steps", "most_queries")
    for name in ("judge", "queries", "labels", "choose_by", *of_training, "encoding", "txt", "seed"):
        if asked.get(name) is not None and asked[name] != usual.get(name):
            arguments += [f"--{name.replace('_', '-')}", asked[name]]
    arguments += ["--columns", columns] if columns else []
    arguments += ["--llm-test"] if asked["llm_test"] else []
    arguments += ["--serve-teachers"] if asked.get("serve_teachers") else []
    return _command(*arguments, "--out", outcome.folder.with_name(f"{outcome.folder.name}-again"))


def _command(*arguments: object) -> str:
    return shlex.join(["nearer", *map(str, arguments)])
