"""Writing scored lists: the folder that `scored_lists.py` reads, whole or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nearer.errors import InputError, ModelError
from nearer.storage.whole import whole_folder

PASSAGES, QUERIES, LISTS = "passages.jsonl", "queries.jsonl", "lists.jsonl"


def write_lists(
    folder: str | Path,
    passages: Iterable[Mapping[str, Any]],
    queries: Iterable[Mapping[str, Any]],
    lists: Iterable[Mapping[str, Any]],
    *,
    overwrite: bool = False,
) -> None:
    """Write scored lists as a folder that `nearer train lists --corpus FOLDER` learns from.

    Args:
        folder: Where they go; it must not exist yet, unless `overwrite`.
        passages: `{"_id": …, "text": …}`, with a `title` where there is one.
        queries: `{"_id": …, "text": …}`; other fields (`kind`, `source`) are kept.
        lists: `{"query": id, "passages": [ids], "scores": [numbers]}`, the scores of a judge, the higher the better.
        overwrite: Replace what is there.

    Examples:
        >>> from nearer.text import write_lists
        >>> passages = [{"_id": "p1", "text": "It rains."}, {"_id": "p2", "text": "A man is eating."}]
        >>> queries = [{"_id": "q1", "text": "Why is it wet?", "kind": "question"}]
        >>> write_lists("lists", passages, queries, [{"query": "q1", "passages": ["p1", "p2"], "scores": [4.5, -2]}])
    """
    try:
        with whole_folder(Path(folder), overwrite=overwrite) as built:
            known = [_write_texts(built / name, rows) for name, rows in ((PASSAGES, passages), (QUERIES, queries))]
            _write(built / LISTS, _checked_lists(lists, *known))
    except ModelError as error:
        raise InputError(str(error)) from None


def _write_texts(path: Path, rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Returns the ids that were written."""
    known: set[str] = set()

    def checked() -> Iterator[Mapping[str, Any]]:
        for number, row in enumerate(rows, 1):
            if not isinstance(row.get("_id"), (str, int)) or not _is_text(row.get("text")):
                raise InputError(f"{path.name}: row {number} needs an _id and a text.")
            if str(row["_id"]) in known:
                raise InputError(
                    f"{path.name}: row {number} has the _id {row['_id']!r} again; each text needs its own."
                )
            known.add(str(row["_id"]))
            yield row

    _write(path, checked())
    return known


def _checked_lists(
    lists: Iterable[Mapping[str, Any]], passages: set[str], queries: set[str]
) -> Iterator[Mapping[str, Any]]:
    for number, each in enumerate(lists, 1):
        where = f"{LISTS}: row {number}"
        members, scores = [str(id) for id in each["passages"]], [float(score) for score in each["scores"]]
        if str(each["query"]) not in queries:
            raise InputError(f"{where}: {QUERIES} has no query {each['query']!r}.")
        if missing := [id for id in members if id not in passages]:
            raise InputError(f"{where}: {PASSAGES} has no passage {missing[0]!r}.")
        if len(members) != len(scores):
            raise InputError(f"{where}: has {len(members)} passages and {len(scores)} scores.")
        if not all(map(math.isfinite, scores)):
            raise InputError(f"{where}: has a score that is not a finite number.")
        yield {**each, "query": str(each["query"]), "passages": members, "scores": scores}


def _is_text(value: object) -> bool:
    """Something to read, which UTF-8 can hold."""
    try:
        return isinstance(value, str) and bool(value.strip()) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
