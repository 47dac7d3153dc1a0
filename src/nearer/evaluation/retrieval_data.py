"""Reading retrieval data from a folder, as it is published: BEIR's sets, mteb's, TREC's, or one's own tables.

| part | a line |
| --- | --- |
| corpus | `_id`, `text`, optional `title`: a document is its title, a space and its text |
| queries | `_id`, `text` |
| judgements | `query-id`, `corpus-id`, `score` (TREC: query, 0, document, score): relevant above 0 |

Which files hold them: `nearer.evaluation.retrieval_files`. A line that cannot be read is an error. What can be read but
is odd is counted and said with the score, or with `strict` an error too:

| oddity | rule | trec_eval, mteb |
| --- | --- | --- |
| empty document | never found; its judgements count as not found | mteb ranks the vector of the empty text |
| judgement of a missing document | counts as not found: in the best order and among the relevant | the same |
| judgement of a missing query; empty query | left out | the same; mteb encodes the empty text |
| query without a relevant document | left out: its figures are undefined | both count it as 0 |
| an id, or a judgement, for the second time | its last line counts | BEIR's reader the same; trec_eval stops |

Queries without a judgement are left out and counted in any case: BEIR keeps the queries of all splits in one file. A
score below 0 means not relevant, as in trec_eval.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from nearer.errors import InputError, SettingError
from nearer.evaluation.retrieval_files import LAYOUTS, Files, find_judgements, find_texts
from nearer.evaluation.retrieval_task import RetrievalTask
from nearer.evaluation.strict_reading import MAX_CHARACTERS, Oddities, filled_text, plain_text, strictly
from nearer.evaluation.task import Form, TaskKind
from nearer.text.faults import Fault, ReadReport
from nearer.text.reading import Reading, ReadOptions
from nearer.text.records import Row
from nearer.text.shapes import Clean, Field, Shape, Unusable, match_columns
from nearer.text.sources import iter_text_lines


class Named(NamedTuple):
    """A document or a query."""

    id: str
    text: str


class Judgement(NamedTuple):
    query: str
    document: str
    gain: float


Gains = dict[str, dict[str, float]]  # of the documents, by query


def load_retrieval(path: str | Path, *, split: str = "test", strict: bool = False) -> RetrievalTask:
    """The task in this folder; `split` chooses among BEIR's `qrels/*.tsv`, `strict` makes an error of any oddity."""
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"{path}: no such folder; {LAYOUTS}.")
    qrels = find_judgements(root, split)
    corpus_files, query_files = find_texts(root, "corpus", split), find_texts(root, "queries", split)
    oddities = Oddities(strict)
    corpus = _named(corpus_files, DOCUMENTS, "documents", oddities)
    queries = _named(query_files, QUERIES, "queries", oddities)
    judged = _judgements(qrels, queries, corpus, query_files, corpus_files, oddities)
    asked = [id for id in queries if id in judged]
    empty = sum(not text for text in queries.values())
    unanswered = oddities.counts.get("queries_without_relevant_documents", 0)
    rows = {id: row for row, id in enumerate(corpus)}
    return RetrievalTask(
        name=root.resolve().name,
        split=qrels.split or "file",
        layout="beir",
        corpus=list(corpus.values()),
        queries=[queries[id] for id in asked],
        judgements=[_by_row(judged[id], rows) for id in asked],
        unjudged=len(queries) - len(asked) - empty - unanswered,
        oddities={**oddities.counts, **({"empty_queries": empty} if empty else {})},
    )


def _named(files: Files, shape: Shape, what: str, oddities: Oddities) -> dict[str, str]:
    """Texts by id, in their order; empty ones stay."""
    texts: dict[str, str] = {}
    lines: dict[str, int] = {}
    for path in files.paths:
        reading = open_table(path, shape)
        for line, (id, text) in strictly(reading):
            unit = reading.report.unit
            if id in texts:
                there = f"{unit} {lines[id]}" if len(files.paths) == 1 else f"another {unit}"
                error = f"{path}: {unit} {line}: the id {id!r} stands on {there} already; ids must differ."
                oddities.meet(f"repeated_{what}", error)
            texts[id], lines[id] = text, line
            if not text:
                oddities.refuse(f"{path}: {unit} {line}: {Fault.WRONG_FIELDS.label} (text: empty); mend or remove it.")
    if not texts:
        raise InputError(f"{files.paths[0]}: has no lines; at least one is needed.")
    if not any(texts.values()):
        raise InputError(f"{files.paths[0]}: all its {what} are empty; at least one with text is needed.")
    return texts


def _judgements(
    files: Files,
    queries: dict[str, str],
    corpus: dict[str, str],
    query_files: Files,
    corpus_files: Files,
    oddities: Oddities,
) -> Gains:
    """The gains of the queries that can be asked and have a relevant document, be it missing."""
    judged: Gains = {}
    first_line: dict[str, str] = {}
    for path in files.paths:
        reading = open_judgements(path)
        for line, (query, document, gain) in strictly(reading):
            where = f"{path}: {reading.report.unit} {line}"
            first_line.setdefault(query, where)
            gains = judged.setdefault(query, {})
            if query not in queries:
                error = f"{where}: the query {query!r} is not in {_shown(query_files)}."
                oddities.meet("judgements_of_missing_queries", error)
            elif document not in corpus:
                oddities.refuse(f"{where}: the document {document!r} is not in {_shown(corpus_files)}.")
            if query in queries and document in gains:
                error = f"the document {document!r} is judged for the query {query!r} already; keep one of the lines."
                oddities.meet("repeated_judgements", f"{where}: {error}")
            gains[document] = gain
    if not judged:
        raise InputError(f"{files.paths[0]}: has no judgements; at least one is needed.")
    _check_ids(files, judged, queries, _shown(query_files), "queries")
    documents = dict.fromkeys(id for gains in judged.values() for id in gains)
    _check_ids(files, documents, corpus, _shown(corpus_files), "documents")
    asked = {query: gains for query, gains in judged.items() if queries.get(query)}
    for query, gains in list(asked.items()):
        if not any(gains.values()):
            error = (
                f"{first_line[query]}: the query {query!r} has no document with a score above 0; "
                "judge one as relevant, or remove its lines."
            )
            oddities.meet("queries_without_relevant_documents", error)
            del asked[query]
    if not asked:
        raise InputError(
            f"{files.paths[0]}: judges no query that has text and a document with a score above 0; there is nothing "
            "to measure."
        )
    return asked


def _check_ids(files: Files, judged: Collection[str], there: dict[str, str], where: str, what: str) -> None:
    """Some missing ones are survived; where all are, the files do not belong together."""
    if not any(id in there for id in judged):
        raise InputError(
            f"{files.paths[0]}: none of the {len(judged):,} {what} that it judges is in {where}: the ids differ "
            f"({next(iter(judged))!r} here, {next(iter(there))!r} there); the files do not belong together."
        )


def _by_row(gains: dict[str, float], rows: dict[str, int]) -> dict[int, float]:
    """Gains by row of the corpus; those of missing documents at the rows behind it, the greatest first."""
    missing = sorted((gain for id, gain in gains.items() if id not in rows), reverse=True)
    found = {rows[id]: gain for id, gain in gains.items() if id in rows}
    return {**found, **{len(rows) + number: gain for number, gain in enumerate(missing)}}


def _shown(files: Files) -> str:
    path = files.paths[0]
    return path.name if len(files.paths) == 1 else f"{path.parent.name}/"


class TrecReading(Reading[Judgement]):
    """TREC's judgements: query, iteration (unused), document and score, with any spaces between them."""

    def _rows(self, report: ReadReport) -> Iterator[Row]:
        for line in iter_text_lines(self.source, self.options.encoding, report):
            cells = line.text.split()
            if line.fault or not cells:
                yield Row(line.number, (), line.fault or Fault.EMPTY, line.detail)
            elif len(cells) != len(TREC_COLUMNS):
                found = f"{len(cells)} found, {len(TREC_COLUMNS)} expected: {', '.join(TREC_COLUMNS)}"
                yield Row(line.number, (), Fault.WRONG_COLUMNS, found)
            else:
                yield Row(line.number, (cells[0], cells[2], cells[3]))


TREC_COLUMNS = ("query", "0", "document", "score")


def open_judgements(path: Path) -> Reading[Judgement]:
    """A file of judgements, as a table or TREC's."""
    if any(suffix in (".jsonl", ".csv", ".parquet") for suffix in path.suffixes):
        return open_table(path, JUDGEMENTS)
    lines = iter_text_lines(path, "utf-8", ReadReport(str(path)))
    first = next((line for line in lines if line.text.strip()), None)
    cells = first.text.split("\t") if first else []
    if first is None or len(cells) == len(JUDGEMENTS.fields) or match_columns(JUDGEMENTS, cells):
        return open_table(path, JUDGEMENTS)
    if len(first.text.split()) == len(TREC_COLUMNS):
        return TrecReading(path, JUDGEMENTS, ReadOptions())
    raise InputError(
        f"{path}: line {first.number}: {len(cells)} columns found; a judgement is query-id, corpus-id and score with "
        "tabs between them, or TREC's query, 0, document and score."
    )


def open_table(path: Path, shape: Shape) -> Reading[Any]:
    """A file of documents, queries or judgements, whose texts may be long."""
    return Reading(path, shape, ReadOptions(max_characters=MAX_CHARACTERS))


def _id(value: object, what: str) -> str:
    return filled_text(str(value) if isinstance(value, int) and not isinstance(value, bool) else value, what)


def _text(value: object, what: str) -> str:
    return "" if value is None else plain_text(value, what)  # the hub's tables have null where a text is missing


def _build_document(values: Sequence[Any], clean: Clean) -> Named:
    return Named(_id(values[0], "id"), f"{_text(values[2], 'title')} {_text(values[1], 'text')}".strip())


def _build_query(values: Sequence[Any], clean: Clean) -> Named:
    return Named(_id(values[0], "id"), _text(values[1], "text").strip())


def _build_judgement(values: Sequence[Any], clean: Clean) -> Judgement:
    try:
        gain = float(values[2])
    except (TypeError, ValueError):
        gain = math.nan
    if not math.isfinite(gain):
        raise Unusable(Fault.BAD_SCORE, repr(values[2])[:20])
    return Judgement(_id(values[0], "query-id"), _id(values[1], "corpus-id"), max(gain, 0.0))  # below 0: not relevant


DOCUMENTS = Shape(
    "text with an id",
    "texts with ids",
    (Field(("_id", "id", "doc_id", "docid")), Field(("text",)), Field(("title",), required=False)),
    _build_document,
)
QUERIES = Shape(
    "text with an id",
    "texts with ids",
    (Field(("_id", "id", "query_id", "qid")), Field(("text", "query"))),
    _build_query,
)
JUDGEMENTS = Shape(
    "judgement",
    "judgements",
    (
        Field(("query-id", "query_id", "qid")),
        Field(("corpus-id", "corpus_id", "doc_id", "docid")),
        Field(("score", "relevance", "label")),
    ),
    _build_judgement,
)


PREFIX = "retrieval:"


def _load(name: str, data: str | Path | None, strict: bool) -> RetrievalTask:
    """`retrieval:FOLDER?split=dev&strict=true`; a folder may have a question mark in its own name."""
    named = name.removeprefix(PREFIX)
    folder, mark, asked = (named, "", "") if Path(named).is_dir() else named.partition("?")
    options = dict(parse_qsl(asked, keep_blank_values=True))
    split, own = options.pop("split", "test"), options.pop("strict", "true" if strict else "false")
    if options or (mark and not asked) or not split or own not in ("true", "false"):
        raise SettingError(
            f"tasks: {name!r}: no such folder, and what may follow one is ?split=NAME, ?strict=true or "
            "?split=NAME&strict=true."
        )
    return load_retrieval(folder, split=split, strict=own == "true")


RETRIEVAL_KIND = TaskKind(
    "retrieval", _load, forms=(Form(PREFIX, "FOLDER"),), title="Retrieval: finding documents for queries"
)
