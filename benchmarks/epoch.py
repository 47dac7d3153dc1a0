"""Rows about whole training runs: one epoch by SimCSE's recipe, all that belongs to it included."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.report import Row, compared
from benchmarks.steps import OURS, PAPERS
from benchmarks.text import own_cache, write_sentences
from nearer.storage.cache import cache_folder
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import SHAPES
from nearer.text.token_store import open_store

SUBJECT = "one epoch"
RECIPE = "simcse-bert-base"
BATCH = 64
EVALUATE_EVERY = 125


def epoch_rows(
    folder: Path,
    sentences: Sequence[str],
    *,
    max_length: int,
    data: Path | None,
    papers_step: float | None,
    scratch: Path,
    tell: Callable[[str], None],
) -> list[Row]:
    """An epoch over all sentences. papers_step: seconds of a step of the papers' loop at its batch size, if known."""
    size = len(sentences)
    tell(f"one epoch over {size:,} sentences")
    rows = _epoch(folder, sentences, max_length, data, scratch)
    if papers_step is not None:
        seconds = papers_step * -(-size // BATCH)
        note = "computed: its steps alone, no evaluation"
        rows.insert(0, Row(SUBJECT, PAPERS, seconds, BATCH, max_length, size, note=note))
    return compared(rows, [PAPERS])


def _epoch(folder: Path, sentences: Sequence[str], max_length: int, data: Path | None, scratch: Path) -> list[Row]:
    from nearer.training import train

    corpus = write_sentences(sentences, scratch / f"epoch-{len(sentences)}.txt")
    run = scratch / f"run-{len(sentences)}"
    task = "everyday" if data is None else "stsb-dev"
    settings = {
        "batch_size": BATCH,
        "max_length": max_length,
        "epochs": 1,
        "evaluate_every": EVALUATE_EVERY,
        "select_on": [task],
        "test_on": [],
    }
    with own_cache(scratch / "epoch-cache"):
        tokenising = _tokenise(folder, corpus, max_length)
        start = time.perf_counter()
        trained = train(RECIPE, corpus, model=folder, out=run, data=data, settings=settings)
        training = time.perf_counter() - start
        stores = [path for path in cache_folder("tokens").iterdir() if path.is_dir()]
    if len(stores) != 1:
        raise RuntimeError("the run did not find the text that was tokenised for it; its time would count twice")
    shutil.rmtree(run)
    shutil.rmtree(scratch / "epoch-cache")
    steps = -(-len(sentences) // BATCH)
    evaluations = f"{1 + -(-steps // EVALUATE_EVERY)} evaluations on {task}"
    row = Row(SUBJECT, OURS, tokenising + training, BATCH, max_length, len(sentences), note=f"all of it, {evaluations}")
    cached = replace(row, what=f"{OURS}, tokenised before", seconds=training, note=f"best step {trained.best_step}")
    return [row, cached]


def _tokenise(folder: Path, corpus: Path, max_length: int) -> float:
    """Seconds that it takes to tokenise the text into the store where the run will find it."""
    from nearer.encoder import Encoder

    tokenizer = Encoder.load(folder, pooling="cls").tokenizer
    start = time.perf_counter()
    open_store(Reading(str(corpus), SHAPES["sentences"], ReadOptions()), tokenizer, max_length=max_length)
    return time.perf_counter() - start
