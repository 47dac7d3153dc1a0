"""Finding the files of retrieval data in a folder: BEIR's layout, plain tables, and the hub's Parquet shards.

| layout | corpus | queries | judgements |
| --- | --- | --- | --- |
| BEIR | `corpus.jsonl` | `queries.jsonl` | `qrels/SPLIT.tsv` |
| tables | `corpus.tsv` | `queries.tsv` | `qrels.tsv`, or TREC's four columns in `qrels.txt` |
| the hub's (mteb) | `corpus/SPLIT-00000-of-00002.parquet` … | `queries/…` | `qrels/…`, `default/…`, `data/…` |

The layouts mix: each part is looked for by itself, in any of the formats, compressed or not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from nearer.errors import InputError
from nearer.text.reading import COMPRESSIONS

TEXT_FORMATS = ("jsonl", "tsv", "csv", "parquet")  # of several the first is read: they are copies of each other
JUDGEMENT_FORMATS = ("tsv", "jsonl", "csv", "parquet", "txt", "trec", "qrels")
JUDGEMENT_FOLDERS = ("qrels", "default", "data")  # the hub's "default" lies in data/
SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})")
LAYOUTS = (
    "retrieval data is a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv (BEIR), or qrels.tsv; each may be "
    f"{', '.join(TEXT_FORMATS[:-1])} or {TEXT_FORMATS[-1]}, compressed ({', '.join(COMPRESSIONS)}) or in the hub's "
    "shards (corpus/test-00000-of-00001.parquet), judgements also TREC's four columns (qrels.txt)"
)


class Files(NamedTuple):
    """The files of one part, in their order, and the split that they are, empty where one file serves all."""

    paths: list[Path]
    split: str = ""


def find_texts(root: Path, part: str, split: str) -> Files:
    """The files of the corpus or the queries. In a folder of splits: the one asked for, or the only one there."""
    path = _single(root, part, TEXT_FORMATS)
    if path is not None:
        return Files([path])
    splits = _splits(root / part, TEXT_FORMATS)
    chosen = next(iter(splits)) if len(splits) == 1 else split
    if chosen in splits:
        return Files(splits[chosen], chosen)
    if splits:
        raise _other_split(root, part, split, {part: sorted(splits)})
    raise InputError(f"{root}: {part}.{TEXT_FORMATS[0]} is missing; {LAYOUTS}.")


def find_judgements(root: Path, split: str) -> Files:
    """The files of the split's judgements, else those that stand for no split (`qrels.tsv`)."""
    folders = {folder: _splits(root / folder, JUDGEMENT_FORMATS) for folder in JUDGEMENT_FOLDERS}
    for splits in folders.values():
        if split in splits:
            return Files(splits[split], split)
    path = _single(root, "qrels", JUDGEMENT_FORMATS)
    if path is not None:
        return Files([path])
    there = {folder: sorted(splits) for folder, splits in folders.items() if splits}
    if there:
        raise _other_split(root, "qrels", split, there)
    raise InputError(f"{root}: qrels/{split}.tsv or qrels.tsv is missing; {LAYOUTS}.")


def list_splits(root: Path) -> list[str]:
    """The splits that a folder has judgements of; none where one file stands for all."""
    return sorted({split for folder in JUDGEMENT_FOLDERS for split in _splits(root / folder, JUDGEMENT_FORMATS)})


def _other_split(root: Path, part: str, split: str, there: dict[str, list[str]]) -> InputError:
    listed = "; ".join(f"{folder}/ has {', '.join(splits)}" for folder, splits in there.items())
    first = next(iter(there.values()))[0]
    return InputError(
        f"{root}: {part}/{split}.tsv is missing, there is no split {split!r}; {listed}. "
        f"Name the split: retrieval:{root}?split={first} (split={first!r} in Python)."
    )


def _single(root: Path, part: str, formats: tuple[str, ...]) -> Path | None:
    endings = ("", *(f".{compression}" for compression in COMPRESSIONS))
    paths = (root / f"{part}.{format}{ending}" for format in formats for ending in endings)
    return next((path for path in paths if path.is_file()), None)


def _splits(folder: Path, formats: tuple[str, ...]) -> dict[str, list[Path]]:
    """The files of each split in a folder, shards in their order."""
    found: dict[str, dict[str, list[Path]]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        name, _, ending = path.name.rpartition(".")
        if ending in COMPRESSIONS:
            name, _, ending = name.rpartition(".")
        if name and ending in formats and path.is_file():
            shard = SHARD.fullmatch(name)
            found.setdefault(shard[1] if shard else name, {}).setdefault(ending, []).append(path)
    return {
        split: _whole(min(kinds.items(), key=lambda kind: formats.index(kind[0]))[1]) for split, kinds in found.items()
    }


def _whole(paths: list[Path]) -> list[Path]:
    """The file of a split, the plain one if copies of it are compressed, or its shards, if none is missing."""
    shards = [SHARD.match(path.name) for path in paths]
    if not all(shards):
        return [path for path, shard in zip(paths, shards, strict=True) if shard is None][:1]
    wanted = {int(shard[3]) for shard in shards if shard}
    if wanted != {len(paths)}:
        raise InputError(
            f"{paths[0].parent}: {len(paths)} shards found, {' or '.join(map(str, sorted(wanted)))} expected by their "
            "names; fetch those that are missing."
        )
    return paths
