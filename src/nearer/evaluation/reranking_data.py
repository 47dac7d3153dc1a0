"""Reading reranking tasks: known sets by name, and files of one's own.

| file | a record |
| --- | --- |
| `.jsonl`, `.parquet`, `hf:owner/name?split=test` | MTEB's: `query` (text or texts), `positive`, `negative` (lists) |
| `.txt`, `.tsv`, `.csv` | WikiQA's: question, answer, 0 or 1; a question's answers are its candidates |

Every line counts: one that cannot be used is an error. Texts are taken as they stand, as MTEB takes them. A
query's empty texts are passed over, and a query of nothing else is left out and counted; with `strict` they are errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from nearer.errors import InputError, SettingError, did_you_mean
from nearer.evaluation.reranking_task import RerankingQuery, RerankingTask
from nearer.evaluation.strict_reading import MAX_CHARACTERS, Oddities, filled_text, plain_text, stored, strictly
from nearer.evaluation.task import Form, KnownTask, TaskKind
from nearer.text.faults import Fault
from nearer.text.hub import HUB_PREFIX
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import Clean, Field, Shape, Unusable

PREFIX = "rerank:"


class KnownSet(NamedTuple):
    """A set by name: the file that may hold it in a data folder, and where the hub has it, if it does."""

    name: str
    split: str
    file: str
    repository: str = ""
    revision: str = ""


RERANKING: dict[str, KnownSet] = {
    "wikiqa": KnownSet("WikiQA", "test", "WikiQA-test.txt"),
    "wikiqa-train": KnownSet("WikiQA", "train", "WikiQA-train.txt"),
    "askubuntu": KnownSet(
        "AskUbuntuDupQuestions",
        "test",
        "AskUbuntuDupQuestions.test.jsonl",
        "mteb/askubuntudupquestions-reranking",
        "2000358ca161889fa9c082cb41daa8dcfb161a54",
    ),
    "scidocs": KnownSet(
        "SciDocsRR",
        "test",
        "SciDocsRR.test.jsonl",
        "mteb/scidocs-reranking",
        "d3c5e1fc0b855ab6097bf1cda04dd73947d7caab",
    ),
    "stackoverflow": KnownSet(
        "StackOverflowDupQuestions",
        "test",
        "StackOverflowDupQuestions.test.jsonl",
        "mteb/stackoverflowdupquestions-reranking",
        "e185fbe320c72810689fc5848eb6114e1ef5ec69",
    ),
    "mindsmall": KnownSet(
        "MindSmallReranking",
        "test",
        "MindSmallReranking.test.jsonl",
        "mteb/mind_small",
        "59042f120c80e8afa9cdbb224f67076cec0fc9a7",
    ),
}
# where in a data folder a known set's file may lie
FOLDERS = (".", "wikiqa", "rerank", "rerank/wikiqa")


class LabelledAnswer(NamedTuple):
    question: str
    answer: str
    right: bool


def load_reranking(
    spec: str | Path, data: str | Path | None = None, *, reading: str = "mteb-v1", strict: bool = False
) -> RerankingTask:
    """A task by name (`RERANKING`: `wikiqa`, `askubuntu` …) from the folder `data` or the hub, or `rerank:PATH`.

    reading: MTEB's, `mteb-v1` or `mteb-v2`; see `nearer.evaluation.reranking_task`. strict: an empty query is an error.
    """
    spec = str(spec)
    if spec.startswith(PREFIX):
        source = spec.removeprefix(PREFIX)
        name = PurePath(source.partition("?")[0]).name.lstrip(".").split(".")[0]
        return RerankingTask(name, "file", "file", read_queries(source, strict=strict), reading)
    if spec.lower() not in RERANKING:
        hint = did_you_mean(spec.lower(), RERANKING)
        raise SettingError(f"tasks: {spec!r} is neither one of {', '.join(RERANKING)} nor {PREFIX}FILE.{hint}")
    known = RERANKING[spec.lower()]
    path = _path(known, data)
    if path is not None:
        return RerankingTask(known.name, known.split, "file", read_queries(path, strict=strict), reading, known.file)
    if not known.repository:
        raise _missing(spec, known, data)
    source = f"{known.repository}@{known.revision[:7]}"
    return RerankingTask(known.name, known.split, "hub", _hub_queries(known, strict), reading, source)


def read_queries(source: str | Path, *, strict: bool = False) -> list[RerankingQuery]:
    """The queries of a file, in their order."""
    suffixes = [] if str(source).startswith(HUB_PREFIX) else PurePath(source).suffixes
    if any(suffix.lower() in (".txt", ".tsv", ".csv") for suffix in suffixes):
        return _grouped(record for _, record in strictly(_reading(source, ANSWERS)))
    reading = _reading(source, QUERIES)
    return [_without_empty_texts(query, reading, line, Oddities(strict)) for line, query in strictly(reading)]


def _without_empty_texts(query: RerankingQuery, reading: Reading[Any], line: int, oddities: Oddities) -> RerankingQuery:
    texts = tuple(text for text in query.texts if text.strip())
    if len(texts) < max(1, len(query.texts)):
        reason = "query: empty" if query.texts else "query: an empty list"
        where = f"{reading.source}: {reading.report.unit} {line}"
        oddities.refuse(f"{where}: {Fault.WRONG_FIELDS.label} ({reason}); mend or remove it.")
    return query._replace(texts=texts)


def _reading(source: str | Path, shape: Shape) -> Reading[Any]:
    return Reading(source, shape, ReadOptions(max_characters=MAX_CHARACTERS))


def _grouped(answers: Iterator[LabelledAnswer]) -> list[RerankingQuery]:
    """A question with all its answers, in the order of first appearance."""
    by_question: dict[str, tuple[list[str], list[str]]] = {}
    for question, answer, right in answers:
        by_question.setdefault(question, ([], []))[not right].append(answer)
    return [RerankingQuery((question,), tuple(good), tuple(bad)) for question, (good, bad) in by_question.items()]


def _path(known: KnownSet, data: str | Path | None) -> Path | None:
    paths = [] if data is None else [stored(Path(data) / folder / known.file) for folder in FOLDERS]
    return next((path for path in paths if path.is_file()), None)


def _missing(spec: str, known: KnownSet, data: str | Path | None) -> SettingError | InputError:
    if data is None:
        return SettingError(
            f"tasks: {spec!r} needs the folder that holds {known.file}; name it by data.", argument="data"
        )
    return InputError(
        f"{Path(data) / known.file}: is missing, also in {', '.join(FOLDERS[1:])} below; "
        "it is part of Microsoft's WikiQA corpus."
    )


def _hub_queries(known: KnownSet, strict: bool) -> list[RerankingQuery]:
    source = f"{HUB_PREFIX}{known.repository}?split={known.split}&revision={known.revision}"
    try:
        return read_queries(source, strict=strict)
    except InputError as error:
        raise InputError(
            f"{known.name} cannot be fetched: {error} Without a network, put it as {known.file} "
            "(query, positive, negative a line) into the data folder.",
            argument="data",
        ) from None


def _query(values: Sequence[Any], clean: Clean) -> RerankingQuery:
    texts = (plain_text(values[0], "query"),) if isinstance(values[0], str) else _texts(values[0], "query")
    return RerankingQuery(texts, _texts(values[1], "positive"), _texts(values[2], "negative"))


def _texts(value: object, what: str) -> tuple[str, ...]:
    if value is None:  # the hub's tables have null where a list is empty
        return ()
    if not isinstance(value, (list, tuple)):
        raise Unusable(Fault.WRONG_FIELDS, f"{what}: a list of texts expected, {type(value).__name__} found")
    return tuple(plain_text(text, what) for text in value)


def _labelled(values: Sequence[Any], clean: Clean) -> LabelledAnswer:
    if str(values[2]).strip() not in ("0", "1"):
        raise Unusable(Fault.WRONG_FIELDS, f"label: 0 or 1 expected, {str(values[2])[:20]!r} found")
    question, answer = filled_text(values[0], "question"), filled_text(values[1], "answer")
    return LabelledAnswer(question, answer, str(values[2]).strip() == "1")


QUERIES = Shape(
    "reranking query",
    "reranking queries",
    (Field(("query",)), Field(("positive", "positives")), Field(("negative", "negatives"))),
    _query,
)
ANSWERS = Shape(
    "labelled answer",
    "labelled answers",
    (Field(("question", "query")), Field(("answer", "sentence", "candidate")), Field(("label", "score", "relevance"))),
    _labelled,
)


def _load(name: str, data: str | Path | None, strict: bool) -> RerankingTask:
    return load_reranking(name, data, strict=strict)


RERANKING_KIND = TaskKind(
    "reranking",
    _load,
    known={
        name: KnownTask(f"{known.name} {known.split}", known.split == "test", needs_data=not known.repository)
        for name, known in RERANKING.items()
    },
    forms=(Form(PREFIX, "FILE"),),
    title="Reranking",
)
