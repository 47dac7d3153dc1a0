"""The text of a run: where it lies, how it is read, at what length it is cut."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from nearer.encoder import Encoder
from nearer.encoder.backbone import longest_input
from nearer.errors import SettingError, TrainingError, tell
from nearer.methods import Method
from nearer.runs.config import RunConfig
from nearer.storage.whole import write_whole
from nearer.text.in_memory import Source, is_path
from nearer.text.reading import Reading, ReadOptions
from nearer.text.reading_filters import EqualLists
from nearer.text.records import RankingList, ScoredList, texts_of
from nearer.text.scored_lists import ScoredLists
from nearer.text.shapes import SHAPES
from nearer.text.token_store import TokenStore, open_store
from nearer.text.tokenise import length_for
from nearer.training.recipes import Recipe

FILE = "corpus.jsonl"


def read_options(recipe: Recipe, columns: Sequence[str] | None, reading: Mapping[str, Any] | None) -> ReadOptions:
    """How the text is read; what is wrong with it is an error."""
    given = dict(reading or {})
    known = {each.name for each in fields(ReadOptions)} - {"columns", "duplicates"}
    for name in given:
        if name not in known:
            raise SettingError(f"reading: {name!r} is not one of {', '.join(sorted(known))}.")
    named = None if columns is None else tuple(columns)
    return ReadOptions(columns=named, duplicates=recipe.training.duplicates, **given)


def corpus_reading(recipe: Recipe, config: RunConfig) -> Reading[Any]:
    """The text that a run learns from."""
    options = read_options(recipe, config.columns, config.reading)
    if recipe.training.data == "scored":
        # a method that learns from scored lists says how many passages it needs of each
        return ScoredLists(config.corpus, options, shortest=getattr(recipe.method, "passages_per_query", 2))
    if recipe.training.list_length is not None:
        return EqualLists(config.corpus, options, recipe.training.list_length)
    return Reading(config.corpus, SHAPES[recipe.training.data], options)


def corpus_file(corpus: Source, recipe: Recipe, options: ReadOptions, folder: Path) -> tuple[str, list[str] | None]:
    """The file to train on, and its columns. Records in memory are written into the run's folder.

    So a run can be resumed, and repeated, after the process that had them is gone.
    """
    columns = None if options.columns is None else list(options.columns)
    if is_path(corpus):
        return str(corpus), columns
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise SettingError("corpus: several processes share a file; write the records to one and give its path.")
    shape = SHAPES[recipe.training.data]
    reading: Reading[Any] = Reading(
        corpus, shape, ReadOptions(columns=options.columns, max_characters=options.max_characters), argument="corpus"
    )
    lines = (json.dumps(_written(record), ensure_ascii=False) + "\n" for record in reading)
    try:
        write_whole(folder / FILE, lines)
    except OSError as error:
        raise TrainingError(f"{folder}: cannot be written ({error.strerror or error}).") from None
    report = reading.report
    report.allow_dropped = options.allow_dropped
    report.check_kept()
    if report.dropped:
        tell(str(report))
    return str(folder / FILE), None


def _written(record: Any) -> Any:
    """As a line of JSON lines: a string, or the fields in their order."""
    if isinstance(record, str):
        return record
    if isinstance(record, ScoredList):
        return record._asdict()
    return list(record.sentences) if isinstance(record, RankingList) else [part for part in record if part is not None]


def training_length(reading: Reading[Any], encoder: Encoder) -> int:
    """What `max_length: auto` stands for.

    Of each record its longest text counts: titles are short, and say nothing of the bodies beside them.
    """
    if isinstance(reading, ScoredLists):
        texts: Iterable[str] = reading.passages()
    else:
        texts = (max(texts_of(record), key=len) for record in reading)
    return length_for(texts, encoder.tokenizer, longest=encoder.settings.max_length)


def check_length(max_length: int, encoder: Encoder) -> None:
    """The model can take texts of so many tokens."""
    longest = longest_input(encoder.backbone, encoder.tokenizer)
    if max_length > longest:
        raise SettingError(
            f"max_length: {max_length} is more than the {longest} tokens that {encoder.name} can take; set "
            f"max_length={longest}, or auto."
        )


def open_corpus(
    reading: Reading[Any], encoder: Encoder, method: Method, max_length: int, *, progress: bool
) -> tuple[TokenStore, list[str]]:
    """The records' tokens, and a remark on how many texts are cut, if any are."""
    form = method.record_form(encoder, reading, max_length)
    store = open_store(
        reading,
        encoder.tokenizer,
        max_length=form.max_length,
        text_normalisation=encoder.settings.text_normalisation,
        prompt=form.prompt,
        progress=progress,
    )
    if not store.cut:
        return store, []
    counted = f"{store.cut:,} of {store.sentences:,}"
    return store, [f"{counted} texts are cut at {form.max_length} tokens ({form.setting})"]
