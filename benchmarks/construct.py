"""`nearer bench construct`: what debiased samples cost a sentence, stage by stage, for corpora of several sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import measure_ceilings
from benchmarks.models import model_or_shape
from benchmarks.report import Report, Row, new_report
from benchmarks.text import corpus_text, own_cache, write_sentences
from nearer.construct.debiased import DebiasedBuilder
from nearer.construct.debiased_sampler import DebiasedSettings
from nearer.construct.positives import WordFrequencies, generator_by_name
from nearer.distributed import local_device
from nearer.encoder import Encoder
from nearer.teachers.teacher import teacher_precision
from nearer.teachers.vector_store import VectorStore
from nearer.text import read_sentences

CORPUS_VECTORS, ALL, WITHOUT_ENCODING = "vectors of the corpus", "all", "all but encoding"
ENCODING, READING = "encoding of candidates", "reading and counting words"
WARM_UP = 300


@dataclass(frozen=True)
class ConstructBench:
    """What to measure. corpus: None for generated text. anchors: how many sentences of each corpus get a record, None
    for all; their pools are taken from the whole corpus.
    """

    corpus: str | None = None
    sizes: Sequence[int] = (10_000, 30_000, 100_000)
    model: str = "wiki-mini"
    pooling: str | None = None
    generator: str = "noise"
    anchors: int | None = None


def bench_construct(wanted: ConstructBench, tell: Callable[[str], None] = lambda message: None) -> Report:
    """Measure, and report; `tell` gets a line at each stage."""
    device = local_device()
    settings = DebiasedSettings()
    with TemporaryDirectory(prefix="nearer-bench-", ignore_cleanup_errors=True) as scratch_name:
        scratch = Path(scratch_name)
        folder, model = model_or_shape(wanted.model, None, scratch / "model")
        pooling = wanted.pooling or ("mean" if wanted.model == "wiki-mini" else None)
        encoder = Encoder.load(folder, pooling=pooling, device=device)
        text = corpus_text(wanted.corpus, max(wanted.sizes), encoder.tokenizer)
        text.check_enough(max(wanted.sizes), "--sizes")
        tell("the machine's limits")
        limits = measure_ceilings(device)
        rows: list[Row] = []
        with own_cache(scratch / "cache"):
            store = VectorStore(encoder, precision=teacher_precision(device))
            warm_up = write_sentences(text.sentences[:WARM_UP], scratch / "warm-up.txt")
            _seconds(wanted, DebiasedSettings(), warm_up, store, scratch / "warm-up")
            for size in sorted(wanted.sizes):
                tell(f"{size:,} sentences")
                corpus = write_sentences(text.sentences[:size], scratch / f"{size}.txt")
                rows += _rows(size, *_seconds(wanted, settings, corpus, store, scratch / f"built-{size}"))
    notes = [
        f"model: {model}, pooling {encoder.settings.pooling}, {encoder.dimension} dimensions; text: {text.described}",
        f"{settings}, generator {wanted.generator}",
        f"the sums are of records alone, without vectors and reading of the corpus; {CORPUS_VECTORS}: of sentences "
        "that no smaller corpus had; they are kept for training",
    ]
    return new_report("construct", device, limits, asdict(wanted), rows, notes)


def _seconds(
    wanted: ConstructBench, settings: DebiasedSettings, corpus: Path, store: VectorStore, folder: Path
) -> tuple[dict[str, float], int, int]:
    """Seconds by stage, how many records were made, and how many sentences' vectors were new."""
    reading = read_sentences(corpus)
    before = len(store.vectors())
    start = time.perf_counter()
    store.rows(reading)
    found = {CORPUS_VECTORS: time.perf_counter() - start}
    new = len(store.vectors()) - before
    start = time.perf_counter()
    generator = generator_by_name(
        wanted.generator, words=lambda: WordFrequencies.of(reading), device=store.encoder.device
    )
    builder = DebiasedBuilder(folder, reading, store, generator, settings, limit=wanted.anchors)
    builder.learn()
    found[READING] = time.perf_counter() - start
    start = time.perf_counter()
    builder.build()
    builder.finish()
    found[ALL] = time.perf_counter() - start
    assert builder.sampler is not None
    stages = builder.sampler.seconds
    found |= {ENCODING if name == "encoding" else name: stages[name] for name in stages}
    found["writing and the rest"] = found[ALL] - sum(stages.values())
    found[WITHOUT_ENCODING] = found[ALL] - stages["encoding"]
    return found, len(builder.building.done), new


def _rows(size: int, seconds: Mapping[str, float], anchors: int, new: int) -> list[Row]:
    sums = (WITHOUT_ENCODING, ALL)
    counts = {CORPUS_VECTORS: new, READING: size}
    rows = []
    for name in [*(name for name in seconds if name not in sums), *sums]:
        count = counts.get(name, anchors)
        each = f"{1e6 * seconds[name] / count:,.0f} µs a sentence" if count else "none were new"
        rows.append(Row(f"a corpus of {size:,} sentences", name, seconds[name], sentences=count, note=each))
    return rows
