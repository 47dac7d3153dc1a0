"""Reading retrieval data of one's own from a folder, in BEIR's layout or as plain tables.

| file | a line |
| --- | --- |
| `corpus.jsonl` or `corpus.tsv` | `_id`, `text`, optional `title` (put before the text) |
| `queries.jsonl` or `queries.tsv` | `_id`, `text` |
| `qrels/test.tsv` or `qrels.tsv` | `query-id`, `corpus-id`, `score`: above 0 is relevant, greater is better |

Tables may have a header that names the columns. Files may be compressed (`corpus.jsonl.gz`). Every line counts: one
that cannot be used is an error. Queries without a judgement are left out and counted: BEIR keeps the queries of all
splits in one file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nearer.errors import InputError
from nearer.evaluation.retrieval_task import RetrievalTask
from nearer.evaluation.strict_reading import MAX_CHARACTERS, filled_text, plain_text, strictly
from nearer.text.faults import Fault
from nearer.text.reading import COMPRESSIONS, Reading, ReadOptions
from nearer.text.shapes import Clean, Field, Shape, Unusable


class Named(NamedTuple):
    """A document or a query."""

    id: str
    text: str


class Judgement(NamedTuple):
    query: str
    document: str
    gain: float


def load_retrieval(path: str | Path, *, split: str = "test") -> RetrievalTask:
    """The task in this folder; `split` chooses among BEIR's `qrels/*.tsv`."""
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"{path}: no such folder; retrieval data is a folder with corpus, queries and qrels.")
    qrels = _found(root, f"qrels/{split}", "tsv") or _file(root, "qrels", "tsv")
    corpus_file, queries_file = _file(root, "corpus", "jsonl", "tsv"), _file(root, "queries", "jsonl", "tsv")
    corpus, queries = _named(corpus_file), _named(queries_file)
    places = {id: place for place, id in enumerate(corpus)}
    judged = _judgements(qrels, queries, places, queries_file.name, corpus_file.name)
    return RetrievalTask(
        name=root.resolve().name,
        split=split if qrels.parent.name == "qrels" else "file",
        layout="beir",
        corpus=list(corpus.values()),
        queries=[queries[id] for id in judged],
        judgements=list(judged.values()),
        unjudged=len(queries) - len(judged),
    )


def _found(root: Path, stem: str, *formats: str) -> Path | None:
    endings = ("", *(f".{compression}" for compression in COMPRESSIONS))
    paths = (root / f"{stem}.{format}{ending}" for format in formats for ending in endings)
    return next((path for path in paths if path.is_file()), None)


def _file(root: Path, stem: str, *formats: str) -> Path:
    path = _found(root, stem, *formats)
    if path is None:
        plain = " or ".join(f"{stem}.{format}" for format in formats)
        raise InputError(f"{root}: {plain} is missing; retrieval data is a folder with corpus, queries and qrels.")
    return path


def _named(path: Path) -> dict[str, str]:
    """Texts by id, in their order."""
    texts: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, (id, text) in strictly(_reading(path, NAMED)):
        if id in texts:
            raise InputError(f"{path}: line {line}: the id {id!r} stands on line {lines[id]} already; ids must differ.")
        texts[id], lines[id] = text, line
    if not texts:
        raise InputError(f"{path}: has no lines; at least one is needed.")
    return texts


def _judgements(
    path: Path, queries: dict[str, str], places: dict[str, int], queries_file: str, corpus_file: str
) -> dict[str, dict[int, float]]:
    """For each judged query the gains by place in the corpus, in the order of the queries."""
    judged: dict[str, dict[int, float]] = {}
    lines: dict[str, int] = {}
    for line, (query, document, gain) in strictly(_reading(path, JUDGEMENTS)):
        if query not in queries:
            raise InputError(f"{path}: line {line}: the query {query!r} is not in {queries_file}.")
        if document not in places:
            raise InputError(f"{path}: line {line}: the document {document!r} is not in {corpus_file}.")
        gains = judged.setdefault(query, {})
        if places[document] in gains:
            raise InputError(
                f"{path}: line {line}: the document {document!r} is judged for the query {query!r} already; "
                "keep one of the lines."
            )
        gains[places[document]] = gain
        lines.setdefault(query, line)
    for query, gains in judged.items():
        if not any(gains.values()):
            raise InputError(
                f"{path}: line {lines[query]}: the query {query!r} has no document with a score above 0; "
                "judge one as relevant, or remove its lines."
            )
    if not judged:
        raise InputError(f"{path}: has no judgements; at least one is needed.")
    return {query: judged[query] for query in queries if query in judged}


def _reading(path: Path, shape: Shape) -> Reading[Any]:
    return Reading(path, shape, ReadOptions(max_characters=MAX_CHARACTERS))


def _id(value: object, what: str) -> str:
    return filled_text(str(value) if isinstance(value, int) and not isinstance(value, bool) else value, what)


def _build_named(values: Sequence[Any], clean: Clean) -> Named:
    title = "" if values[2] is None else plain_text(values[2], "title")
    return Named(_id(values[0], "id"), filled_text(f"{title} {plain_text(values[1], 'text')}", "text"))


def _build_judgement(values: Sequence[Any], clean: Clean) -> Judgement:
    try:
        gain = float(values[2])
    except (TypeError, ValueError):
        gain = math.nan
    if not math.isfinite(gain):
        raise Unusable(Fault.BAD_SCORE, repr(values[2])[:20])
    return Judgement(_id(values[0], "query-id"), _id(values[1], "corpus-id"), max(gain, 0.0))  # below 0: not relevant


NAMED = Shape(
    "text with an id",
    "texts with ids",
    (Field(("_id", "id")), Field(("text",)), Field(("title",), required=False)),
    _build_named,
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
