"""`nearer bench encode`: our encoding against sentence-transformers' on text of mixed length, and file to file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.machine import PEER, measure_ceilings
from benchmarks.memory import device_peak, process_peak, release
from benchmarks.models import model_or_shape
from benchmarks.peer import MISSING_PEER, load_peer, peer_installed
from benchmarks.report import Report, Row, compared, new_report
from benchmarks.steps import DOES_NOT_FIT, OURS
from benchmarks.text import corpus_text, mixed, write_sentences
from benchmarks.timing import alternate
from nearer.distributed import local_device
from nearer.encoder import Encoder
from nearer.encoder.files import encode_file
from nearer.errors import SettingError
from nearer.text import read_sentences
from nearer.units import as_bytes

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
WARM_UP = 64
ROUNDS = 3
# from so many texts on, one round is long enough to be steady
ENOUGH_FOR_ONE_ROUND = {"cuda": 500_000, "cpu": 4_000}

Vectors = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Vectors]


@dataclass(frozen=True)
class EncodeBench:
    """What to measure; None stands for what suits the device, or for the model's own.

    peer_batches: the batch sizes at which sentence-transformers encodes; its own default is 32.
    """

    model: str | None = None
    shape: str | None = None
    pooling: str | None = None
    max_length: int | None = None
    corpus: str | None = None
    sizes: Sequence[int] | None = None
    precisions: Sequence[str] | None = None
    peers: bool = True
    peer_batches: Sequence[int] | None = None

    def check(self) -> None:
        if self.model is not None and self.shape is not None:
            raise SettingError("--shape: makes a model of random weights, --model names one; give one of them.")
        for precision in self.precisions or ():
            if precision not in DTYPES:
                raise SettingError(f"--precision: {precision!r} is not one of {', '.join(DTYPES)}.")

    def on(self, device: torch.device) -> EncodeBench:
        """With everything decided."""
        gpu = device.type == "cuda"
        plain = self.shape is not None or self.model in (None, "wiki-mini")
        return replace(
            self,
            model=None if self.shape else self.model or "wiki-mini",
            pooling=self.pooling or ("mean" if plain else None),
            sizes=self.sizes or ((1_000, 10_000, 100_000) if gpu else (1_000, 4_000)),
            precisions=self.precisions or (("float32", "bf16") if gpu else ("float32",)),
            peer_batches=self.peer_batches or ((32, 256) if gpu else (32,)),
        )


def bench_encode(wanted: EncodeBench, tell: Callable[[str], None] = lambda message: None) -> Report:
    """Measure, and report; `tell` gets a line at each stage."""
    wanted.check()
    device = local_device()
    wanted = wanted.on(device)
    assert wanted.sizes is not None
    assert wanted.precisions is not None
    with TemporaryDirectory(prefix="nearer-bench-", ignore_cleanup_errors=True) as scratch_name:
        scratch = Path(scratch_name)
        folder, model = model_or_shape(wanted.model, wanted.shape, scratch / "model")
        encoder = Encoder.load(folder, pooling=wanted.pooling, max_length=wanted.max_length, device=device)
        encoder.save(scratch / "layout")
        text = corpus_text(wanted.corpus, max(wanted.sizes), encoder.tokenizer)
        text.check_enough(max(wanted.sizes), "--sizes")
        texts = mixed(text.sentences)
        lengths = encoder.tokenised(texts[:10_000]).lengths
        low, high = np.percentile(lengths, [5, 95])
        tell("the machine's limits")
        limits = measure_ceilings(device)
        release(device)
        rows: list[Row] = []
        for precision in wanted.precisions:
            tell(f"{precision}: {len(texts):,} texts, file to file")
            # first: later, memory that others gave back would hide its own
            file_row = _file_row(encoder, texts, precision, scratch)
            encodings = _encodings(wanted, encoder, scratch / "layout", precision, device)
            for size in wanted.sizes:
                tell(f"{precision}: {size:,} texts")
                case = Row(f"encoding in {precision}", "", sentences=size)
                rows += compared(_turns(case, encodings, texts[:size], device), [*encodings][1:])
            rows.append(file_row)
            del encodings
            release(device)
    notes = [
        f"model: {model}, pooling {encoder.settings.pooling}, at most {encoder.settings.max_length} tokens",
        f"text: {text.described}, mixed: of four texts one is a sentence's beginning, two are sentences, one is four; "
        f"{lengths.mean():.0f} tokens in the mean, nine tenths have {low:.0f} to {high:.0f}",
    ]
    if wanted.peers and not peer_installed():
        notes.append(MISSING_PEER)
    return new_report("encode", device, limits, asdict(wanted), rows, notes)


def _encodings(
    wanted: EncodeBench, encoder: Encoder, layout: Path, precision: str, device: torch.device
) -> dict[str, Encode]:
    """By name, ours first."""
    found: dict[str, Encode] = {OURS: partial(encoder.encode, precision=precision)}
    if wanted.peers and peer_installed():
        peer = load_peer(layout, device, DTYPES[precision])
        for batch in wanted.peer_batches or ():
            found[f"{PEER}, batch {batch}"] = partial(peer.encode, batch_size=batch, show_progress_bar=False)
    return found


def _turns(case: Row, encodings: Mapping[str, Encode], texts: Sequence[str], device: torch.device) -> list[Row]:
    """All encodings of these texts, turn by turn."""
    vectors: dict[str, Vectors] = {}
    memory: dict[str, int | None] = {}

    def turn(name: str, part: Sequence[str]) -> float:
        with device_peak(device) as peak:
            start = time.perf_counter()
            vectors[name] = encodings[name](part)
            seconds = time.perf_counter() - start
        memory[name] = peak.used
        return seconds

    alternate({name: partial(turn, name, texts[:WARM_UP]) for name in encodings}, 1)
    rounds = ROUNDS if len(texts) < ENOUGH_FOR_ONE_ROUND[device.type] else 1
    timings = alternate({name: partial(turn, name, texts) for name in encodings}, rounds)
    rows = []
    for name in encodings:
        if name not in timings:
            rows.append(replace(case, what=name, note=DOES_NOT_FIT))
            continue
        timing = timings[name]
        note = "" if name == OURS or OURS not in timings else _difference(vectors[OURS], vectors[name])
        rows.append(
            replace(case, what=name, seconds=timing.median, rounds=timing.rounds, memory=memory[name], note=note)
        )
    return rows


def _difference(ours: Vectors, others: Vectors) -> str:
    return f"largest difference of a component {largest_difference(ours, others):.1e}"


def largest_difference(first: NDArray[Any], second: NDArray[Any], rows_at_once: int = 10_000) -> float:
    """Over all components, some rows at a time: a million vectors need no second copy."""
    starts = range(0, len(first), rows_at_once)
    return max(float(np.abs(first[s : s + rows_at_once] - second[s : s + rows_at_once]).max()) for s in starts)


def _file_row(encoder: Encoder, texts: Sequence[str], precision: str, scratch: Path) -> Row:
    source = write_sentences(texts, scratch / "texts.txt")
    encoder.encode(texts[:WARM_UP], precision=precision)
    with process_peak() as peak:
        start = time.perf_counter()
        encode_file(encoder, read_sentences(source), scratch / "vectors.npy", precision=precision, overwrite=True)
        seconds = time.perf_counter() - start
    return Row(
        f"encoding in {precision}",
        f"{OURS}, file to file",
        seconds,
        sentences=len(texts),
        memory=peak.used,
        note=f"memory of the process; {as_bytes(peak.total)} in all" if peak.total else "",
    )
