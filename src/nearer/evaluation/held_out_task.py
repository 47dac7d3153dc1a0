"""A retrieval task made of held-out records of the user's own text, for which nobody has to label anything.

| records | query | to be found |
| --- | --- | --- |
| pairs, triplets, debiased samples, lists | the first text | the text that belongs to it, among those of all records |
| texts of several sentences | the first sentence | the rest of its text |
| single sentences, with teachers to follow | every other sentence | of the rest, those that the teachers find nearest |
| single sentences otherwise | half of the words | the other half |

It tells whether a model learns what belongs together in this text. It does not tell how well the model serves people's
own queries: only labels do. Halves of sentences tell little of a model that learns from a better one: the bundled
wiki-mini, untrained, finds them better than all-MiniLM-L6-v2 does (docs/evaluation.md), hence the question before.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer.errors import ModelError, TrainingError
from nearer.evaluation.retrieval_task import RetrievalTask
from nearer.storage.whole import whole_folder
from nearer.text.reading_filters import same_text
from nearer.text.records import DebiasedSample, texts_of
from nearer.text.sentences import split_sentences

NAME = "held-out"
# Words that a query and an answer must have to say anything
SHORTEST = 3
# Sentences that count as near to another, in the order in which teachers put them
NEAREST = 10

# How near texts are to each other (texts, texts)
Nearness = Callable[[Sequence[str]], NDArray[np.floating[Any]]]


class Question(NamedTuple):
    """A query, the texts that answer it, and texts that do not, beside those of all other questions."""

    query: str
    answers: Sequence[str]
    others: Sequence[str] = ()


def held_out_task(records: Sequence[Any], nearness: Nearness | None = None) -> RetrievalTask | None:
    """None where the records give fewer than two questions: then there is nothing to tell apart.

    nearness: by the teachers that the method follows; asked about single sentences alone.
    """
    if nearness is not None and not _belong_together(records):
        return _in_teachers_order(records, nearness(records))
    kind, questions = _questions(records)
    answers_of: dict[str, tuple[str, list[str]]] = {}  # equal queries are one, with the answers of all
    rows: dict[str, int] = {}
    for question in questions:
        for text in (*question.answers, *question.others):
            rows.setdefault(text, len(rows))
        answers_of.setdefault(same_text(question.query), (question.query, []))[1].extend(question.answers)
    if len(answers_of) < 2:
        return None
    return RetrievalTask(
        name=NAME,
        split="dev",
        layout=kind,
        corpus=list(rows),
        queries=[query for query, _ in answers_of.values()],
        judgements=[{rows[answer]: 1.0 for answer in answers} for _, answers in answers_of.values()],
    )


def write_task(task: RetrievalTask, folder: Path) -> None:
    """In BEIR's layout, so that any model can be scored on it: `--tasks retrieval:FOLDER`."""
    documents = ({"_id": f"d{number}", "text": text} for number, text in enumerate(task.corpus))
    queries = ({"_id": f"q{number}", "text": text} for number, text in enumerate(task.queries))
    judged = (
        f"q{number}\td{document}\t{gain:g}\n"
        for number, judgements in enumerate(task.judgements)
        for document, gain in judgements.items()
    )
    try:
        with whole_folder(folder, overwrite=True) as built:
            for name, lines in (("corpus", documents), ("queries", queries)):
                text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
                (built / f"{name}.jsonl").write_text(text, encoding="utf-8")
            (built / "qrels.tsv").write_text("".join(["query-id\tcorpus-id\tscore\n", *judged]), encoding="utf-8")
    except ModelError as error:
        raise TrainingError(str(error)) from None


def _questions(records: Sequence[Any]) -> tuple[str, list[Question]]:
    """What is asked, in words, and the questions."""
    if not _belong_together(records):
        return "half of a sentence's words → the other half", list(_halves(records))
    if records and not isinstance(records[0], str):
        return "a record's first text → the text that belongs to it", [_of_record(record) for record in records]
    return "first sentence → the rest of its text", list(_first_and_rest(records))


def _belong_together(records: Sequence[Any]) -> bool:
    """Whether the records say what belongs together. Single sentences do not."""
    if records and not isinstance(records[0], str):
        return True
    return 2 * sum(1 for _ in _first_and_rest(records)) >= len(records)


def _in_teachers_order(sentences: Sequence[str], near: NDArray[np.floating[Any]]) -> RetrievalTask | None:
    """Every other sentence asks for those of the rest that are nearest to it; the nearest has the highest gain."""
    queries, corpus = sentences[::2], sentences[1::2]
    if len(queries) < 2 or len(corpus) < 2:
        return None
    count = min(NEAREST, len(corpus) // 2)
    nearest = np.argsort(-near[::2, 1::2], axis=1, kind="stable")[:, :count]
    return RetrievalTask(
        name=NAME,
        split="dev",
        layout="a sentence → those that the teachers find nearest to it",
        corpus=corpus,
        queries=queries,
        judgements=[{int(row): float(count - place) for place, row in enumerate(rows)} for rows in nearest],
    )


def _of_record(record: Any) -> Question:
    if isinstance(record, DebiasedSample):
        return Question(record.anchor, record.positives, record.negatives)
    texts = texts_of(record)
    return Question(texts[0], texts[1:2], texts[2:])


def _first_and_rest(texts: Sequence[str]) -> Iterator[Question]:
    for text in texts:
        first, *others = split_sentences(text)
        rest = " ".join(others)
        if len(first.split()) >= SHORTEST and len(rest.split()) >= SHORTEST:
            yield Question(first, [rest])


def _halves(sentences: Sequence[str]) -> Iterator[Question]:
    """Which words go where follows from the sentence alone."""
    for sentence in sentences:
        words = sentence.split()
        if len(words) < 2 * SHORTEST:
            continue
        chosen = set(random.Random(sentence).sample(range(len(words)), len(words) // 2))
        halves = [[word for index, word in enumerate(words) if (index in chosen) is side] for side in (True, False)]
        query, answer = (" ".join(half) for half in halves)
        yield Question(query, [answer])
