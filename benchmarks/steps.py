"""Rows about single training steps: the papers' loop, sentence-transformers' trainer, and ours, taking turns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.floor import LayerSizes, floor_seconds
from benchmarks.memory import device_peak, out_of_memory, release
from benchmarks.ours import SIMCSE, training_steps
from benchmarks.papers import PapersLoop
from benchmarks.peer import PeerLoop, peer_installed, peer_name, peer_precision
from benchmarks.report import FLOOR, Row, compared
from benchmarks.timing import Steps, alternate, split_in_rounds, time_steps
from nearer.text import write_lists

SUBJECT = "training step"
PAIRS_SUBJECT = "training step, titles and texts"
PAPERS, PLAIN, OURS = "papers' loop", "nearer, plain", "nearer"
LISTS_SUBJECT = "training step, scored lists"
CONTRAST, SCORED = "nearer, contrast of pairs", "nearer, scored lists"
LISTED, DRAWN = 20, 8  # passages in a list, and drawn of it in a step
WARM_UPS = 5  # at most
DOES_NOT_FIT = "does not fit in memory"


@dataclass(frozen=True)
class StepBench:
    """What all rows share. `corpus` is the file of `sentences`, `lengths` their tokens, not cut.

    folder: a plain checkpoint; layout: the same model in the layout of sentence-transformers. sizes: of its layers,
    where they can be counted. warm_up: steps taken before any is timed. ranked: measure the ranking methods too,
    RankEncoder with so many corpus sentences. recipes: by name, settings of further methods to measure.
    """

    folder: Path
    layout: Path
    corpus: Path
    sentences: Sequence[str]
    lengths: NDArray[np.int64]
    sizes: LayerSizes | None
    steps: int
    warm_up: int
    device: torch.device
    peers: bool
    scratch: Path
    ranked: int | None = None
    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def competitors(self, batch: int, max_length: int) -> dict[str, Callable[[], Steps]]:
        """By name, what starts each of them."""
        shared: dict[str, Any] = {"batch_size": batch, "max_length": max_length}
        found: dict[str, Callable[[], Steps]] = {}
        if self.peers:
            found[PAPERS] = partial(PapersLoop, self.folder, self.sentences, device=self.device, **shared)
        if self.peers and peer_installed():
            found[peer_name()] = partial(
                PeerLoop, self.layout, self.sentences, device=self.device, output=self.scratch, **shared
            )
        ours = partial(training_steps, self.folder, self.corpus, **shared)
        on_gpu = self.device.type == "cuda"
        # compiling for a CPU takes longer than it saves
        for name, compiled in ({PLAIN: False, OURS: True} if on_gpu else {OURS: False}).items():
            found[name] = partial(ours, compile=compiled)
        for name, recipe in {**self.ranking_methods(), **self.named_recipes()}.items():
            found[name] = partial(ours, compile=on_gpu, recipe=recipe)
        return found

    def named_recipes(self) -> dict[str, Mapping[str, Any]]:
        return {f"{OURS}, {name}": recipe for name, recipe in self.recipes.items()}

    def ranking_methods(self) -> dict[str, dict[str, Any]]:
        """By name: methods with teachers, whose vectors of all sentences are made before the first step."""
        if self.ranked is None:
            return {}
        teachers = [{"model": str(self.folder), "pooling": pooling} for pooling in ("cls", "mean")]
        two, one = {"teachers": teachers}, {"teachers": teachers[:1], "corpus_size": self.ranked}
        corpus = f"{self.ranked:,} sentences"
        return {
            f"{OURS}, RankCSE by ListNet, 2 teachers": _method("rankcse", **two),
            f"{OURS}, RankCSE by ListMLE, 2 teachers": _method("rankcse", ranking="list_mle", **two),
            f"{OURS}, RankEncoder, {corpus}": _method("rankencoder", **one),
            f"{OURS}, RankEncoder, {corpus}, approximate": _method("rankencoder", approximate=True, **one),
        }

    def precision(self, name: str) -> str:
        """In which a competitor computes."""
        if self.device.type == "cpu":
            return "float32"
        return {PAPERS: "fp16", peer_name(): peer_precision(self.device)}.get(name, "bf16")


def _method(name: str, **settings: Any) -> dict[str, Any]:
    """A method on what SimCSE trains."""
    return {**SIMCSE, "method": name, **settings}


def pair_rows(bench: StepBench, batch: int, max_length: int, tell: Callable[[str], None]) -> list[Row]:
    """Supervised SimCSE on pairs of a short and a long side, as sentence-transformers trains them and as we do."""
    titles, texts = titles_and_texts(bench.sentences, max_length)
    file = bench.scratch / f"pairs-{max_length}.jsonl"
    lines = (json.dumps(pair, ensure_ascii=False) + "\n" for pair in zip(titles, texts, strict=True))
    file.write_text("".join(lines), encoding="utf-8")
    shared: dict[str, Any] = {"batch_size": batch, "max_length": max_length}
    found: dict[str, Callable[[], Steps]] = {}
    if bench.peers and peer_installed():
        found[peer_name()] = partial(
            PeerLoop, bench.layout, titles, positives=texts, device=bench.device, output=bench.scratch, **shared
        )
    found[OURS] = partial(
        training_steps,
        bench.folder,
        file,
        compile=bench.device.type == "cuda",
        recipe={**SIMCSE, "data": "pairs"},
        **shared,
    )
    rows = _measured(bench, Row(PAIRS_SUBJECT, "", batch=batch, max_length=max_length), found, tell)
    release(bench.device)
    return compared(rows, [peer_name()])


def list_rows(bench: StepBench, queries: int, max_length: int, tell: Callable[[str], None]) -> list[Row]:
    """Scored lists, eight passages a query and a teacher, beside a contrast of as many pairs as there are passages."""
    titles, texts = titles_and_texts(bench.sentences, max_length)
    pairs, lists = bench.scratch / f"contrast-{max_length}.jsonl", bench.scratch / f"scored-{max_length}"
    pairs.write_text("".join(json.dumps(pair) + "\n" for pair in zip(titles, texts, strict=True)), encoding="utf-8")
    scored = (
        {"query": n, "passages": [(n + k) % len(texts) for k in range(LISTED)], "scores": list(range(LISTED))}
        for n in range(len(titles))
    )
    write_lists(lists, _identified(texts), _identified(titles), scored)
    compile, tokens = bench.device.type == "cuda", dict[str, float]()

    def start(name: str, corpus: Path, **settings: Any) -> Steps:
        steps = training_steps(bench.folder, corpus, max_length=max_length, compile=compile, **settings)
        tokens[name] = steps.tokens_a_step()
        return steps

    taught = _method("lists", data="scored", teachers=[{"model": str(bench.folder), "pooling": "mean"}])
    found: dict[str, Callable[[], Steps]] = {
        CONTRAST: partial(start, CONTRAST, pairs, batch_size=queries * DRAWN, recipe={**SIMCSE, "data": "pairs"}),
        SCORED: partial(start, SCORED, lists, batch_size=queries, recipe=taught),
    }
    rows = _measured(bench, Row(LISTS_SUBJECT, "", batch=queries, max_length=max_length), found, tell)
    release(bench.device)
    seconds = {row.what: row.seconds / tokens[row.what] for row in rows if row.seconds}
    if len(seconds) < 2:
        return rows
    ratio = f"{seconds[SCORED] / seconds[CONTRAST]:.2f} × a contrastive step of as many tokens"
    return [
        replace(row, note=f"{row.note}, {tokens[row.what]:,.0f} tokens{f', {ratio}' * (row.what == SCORED)}")
        for row in rows
    ]


def _identified(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"_id": number, "text": text} for number, text in enumerate(texts)]


def titles_and_texts(sentences: Sequence[str], max_length: int) -> tuple[list[str], list[str]]:
    """As many pairs as sentences: eight words of one, and the sentences from the next one on, longer than the cut."""
    titles = [" ".join(sentence.split()[:8]) for sentence in sentences]
    joined = max(2, -(-max_length // 16))  # a sentence has more than 16 tokens, as a rule
    following = [*sentences, *sentences][1:]
    return titles, [" ".join(following[index : index + joined]) for index in range(len(sentences))]


def step_rows(bench: StepBench, batch: int, max_length: int, rate: float, tell: Callable[[str], None]) -> list[Row]:
    """All competitors at one batch size, with the floor that the arithmetic sets at `rate` operations a second."""
    case = Row(SUBJECT, "", batch=batch, max_length=max_length)
    measured = _measured(bench, case, bench.competitors(batch, max_length), tell)
    release(bench.device)
    recipes = bench.named_recipes()
    measured = _beside_simcse(measured, {*bench.ranking_methods(), *recipes})
    rows = [row for row in measured if row.what not in recipes]
    if bench.sizes is not None:
        seconds = floor_seconds(bench.sizes, np.minimum(bench.lengths, max_length), batch, rate)
        rows.append(replace(case, what=FLOOR, seconds=seconds, note="no padding, at the matrix rate"))
    # peers and floor are those of SimCSE's step: they say nothing of what another recipe computes
    return [*compared(rows, [PAPERS, peer_name()]), *(row for row in measured if row.what in recipes)]


def _beside_simcse(rows: Sequence[Row], names: Collection[str]) -> list[Row]:
    """Rows of these names say what their step costs beside ours of SimCSE."""
    usual = next((row.seconds for row in rows if row.what == OURS), None)
    return [
        replace(row, note=f"{row.note}, {row.seconds / usual:.2f} × a step of SimCSE")
        if row.what in names and usual and row.seconds
        else row
        for row in rows
    ]


def _measured(
    bench: StepBench, case: Row, competitors: Mapping[str, Callable[[], Steps]], tell: Callable[[str], None]
) -> list[Row]:
    rounds, per_round = split_in_rounds(bench.steps)
    where = f"batch {case.batch}, {case.max_length} tokens"
    rows = {name: replace(case, what=name, note=DOES_NOT_FIT) for name in competitors}
    running: dict[str, _Running] = {}
    try:
        for name, start in competitors.items():
            tell(f"{where}: {name} starts")
            if (started := _started(bench, start)) is not None:
                running[name] = started
        tell(f"{where}: {rounds} rounds of {per_round} steps")
        turns = {name: partial(time_steps, one.steps, per_round) for name, one in running.items()}
        for name, timing in alternate(turns, rounds).items():
            rows[name] = replace(
                rows[name],
                seconds=timing.median,
                rounds=timing.rounds,
                start_up=max(0.0, running[name].seconds - running[name].taken * timing.median),
                memory=running[name].memory,
                note=bench.precision(name),
            )
    finally:
        for one in running.values():
            one.steps.close()
    return list(rows.values())


@dataclass(frozen=True)
class _Running:
    """A competitor after its warm-up: the steps taken until then, in how many seconds and, at most, in what memory."""

    steps: Steps
    taken: int
    seconds: float
    memory: int | None


def _started(bench: StepBench, start: Callable[[], Steps]) -> _Running | None:
    """None if it does not fit. Nobody else runs meanwhile: the peak of memory is this one's."""
    steps: Steps | None = None
    began = time.perf_counter()
    try:
        with device_peak(bench.device) as peak:
            steps = start()
            taken = warm_up(steps, bench.warm_up)
    except (RuntimeError, MemoryError) as error:
        if steps is not None:
            steps.close()
        if not out_of_memory(error):
            raise
        return None
    return _Running(steps, taken, time.perf_counter() - began, peak.used)


def warm_up(steps: Steps, count: int) -> int:
    """Take `count` steps, and as many again while one of them met a batch of a new shape, which is captured first.

    Returns how many steps were taken.
    """
    taken, before = 0, None
    while taken < WARM_UPS * count and before != (now := getattr(steps, "start_up_seconds", 0.0)):
        time_steps(steps, count)
        taken, before = taken + count, now
    return taken
