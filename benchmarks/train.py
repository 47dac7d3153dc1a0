"""`nearer bench train`: steps at several batch sizes, whole epochs, and where the time of a step goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.epoch import BATCH, epoch_rows
from benchmarks.floor import LayerSizes
from benchmarks.machine import measure_ceilings
from benchmarks.memory import release
from benchmarks.models import model_or_shape
from benchmarks.ours import SIMCSE, training_steps
from benchmarks.peer import MISSING_PEER, peer_installed
from benchmarks.profile import STEPS as PROFILED_STEPS
from benchmarks.profile import profile_steps
from benchmarks.recipes import load_sentence_recipes, prepare_recipes
from benchmarks.report import Report, Row, new_report
from benchmarks.steps import DRAWN, OURS, PAPERS, StepBench, list_rows, pair_rows, step_rows
from benchmarks.text import corpus_text, own_cache, write_sentences
from nearer.distributed import local_device
from nearer.encoder import Encoder
from nearer.errors import SettingError
from nearer.evaluation import load_tasks

PAIRS = 32, 128  # pairs a batch, tokens
LISTS = {"cuda": (48, 256), "cpu": (4, 64)}  # queries a batch, tokens of a passage
EPOCH_SIZES = (1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class TrainBench:
    """What to measure; None stands for what suits the device.

    epoch: whole runs too, over `sizes` sentences (None: the usual numbers as far as the text goes). ranking: steps of
    RankCSE and RankEncoder too, the latter with `ranked` corpus sentences. pairs: steps on titles and texts too, 32
    pairs of up to 128 tokens. lists: steps on scored lists too, 48 queries with passages of up to 256 tokens (on a CPU
    4 and 64). recipes: steps of these too, as far as they learn from sentences alone.
    """

    batches: Sequence[int] | None = None
    max_lengths: Sequence[int] = (32,)
    steps: int | None = None
    shape: str | None = None
    model: str | None = None
    corpus: str | None = None
    data: Path | None = None
    epoch: bool = False
    sizes: Sequence[int] | None = None
    profile: bool = False
    peers: bool = True
    ranking: bool = False
    ranked: int | None = None
    pairs: bool = False
    lists: bool = False
    recipes: Sequence[str] = ()

    def check(self) -> None:
        if self.model is not None and self.shape is not None:
            raise SettingError("--shape: makes a model of random weights, --model names one; give one of them.")
        if self.batches and min(self.batches) < 2:
            raise SettingError("--batch: 1 leaves no negatives; 2 at least.")
        if min(self.max_lengths) < 3:
            raise SettingError(f"--max-length: {min(self.max_lengths)} leaves no room for a sentence (3 at least).")
        load_sentence_recipes(self.recipes)
        if self.epoch and self.data is not None:
            load_tasks(["stsb-dev"], self.data)

    def on(self, device: torch.device) -> TrainBench:
        """With everything decided but the sizes, which depend on the text."""
        gpu = device.type == "cuda"
        return replace(
            self,
            batches=self.batches or ((64, 128, 512) if gpu else (64,)),
            steps=self.steps or (100 if gpu else 5),
            shape=None if self.model else self.shape or ("base" if gpu else "tiny"),
            ranked=(self.ranked or (100_000 if gpu else 1_000)) if self.ranking else None,
        )


def bench_train(
    wanted: TrainBench,
    tell: Callable[[str], None] = lambda message: None,
    so_far: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measure, and report; `tell` gets a line at each stage, `so_far` what is measured already: it may take long."""
    wanted.check()
    device = local_device()
    wanted = wanted.on(device)
    assert wanted.batches is not None
    assert wanted.steps is not None
    usual = EPOCH_SIZES if device.type == "cuda" else EPOCH_SIZES[:1]
    sizes = (wanted.sizes or usual) if wanted.epoch else ()
    warm_up = 30 if device.type == "cuda" else 1  # enough to meet each length that a step is compiled for
    queries, passage_tokens = LISTS.get(device.type, LISTS["cpu"]) if wanted.lists else (0, 0)
    largest = max(*wanted.batches, PAIRS[0] if wanted.pairs else 0, queries * DRAWN)
    for_steps = max(largest * (warm_up + wanted.steps + PROFILED_STEPS), wanted.ranked or 0)
    with TemporaryDirectory(prefix="nearer-bench-", ignore_cleanup_errors=True) as name, own_cache(Path(name, "cache")):
        scratch = Path(name)
        folder, model = model_or_shape(wanted.model, wanted.shape, scratch / "model")
        longest = max(*wanted.max_lengths, PAIRS[1] if wanted.pairs else 0, passage_tokens)
        encoder = Encoder.load(folder, pooling="cls", max_length=longest, device="cpu")
        encoder.save(scratch / "layout")
        text = corpus_text(wanted.corpus, max(for_steps, *sizes, 0), encoder.tokenizer)
        text.check_enough(largest, "--batch")
        if wanted.sizes and wanted.epoch:
            text.check_enough(max(sizes), "--sizes")
        if wanted.ranked:
            text.check_enough(wanted.ranked, "--ranked")
        sample = text.sentences[:for_steps]
        recipes = prepare_recipes(load_sentence_recipes(wanted.recipes), folder, scratch)
        bench = StepBench(
            folder=folder,
            layout=scratch / "layout",
            corpus=write_sentences(sample, scratch / "steps.txt"),
            sentences=sample,
            lengths=encoder.tokenised(sample).lengths,
            sizes=LayerSizes.of(encoder.backbone.config),
            steps=wanted.steps,
            warm_up=warm_up,
            device=device,
            peers=wanted.peers,
            scratch=scratch,
            ranked=wanted.ranked,
            recipes=recipes.settings,
        )
        tell("the machine's limits")
        limits = measure_ceilings(device)
        release(device)
        rows: list[Row] = []
        profiles: list[dict[str, Any]] = []
        lengths = _lengths(bench, wanted.max_lengths[0])
        notes = [f"model: {model}", f"text: {text.described}; {lengths}", *recipes.notes, *_left_out(bench)]

        def report() -> Report:
            return new_report("train", device, limits, {**asdict(wanted), "warm_up": warm_up}, rows, notes, profiles)

        for max_length in wanted.max_lengths:
            for batch in wanted.batches:
                rows += step_rows(bench, batch, max_length, limits.matrix_rate, tell)
                so_far(report())
        if wanted.pairs:
            rows += pair_rows(bench, *PAIRS, tell)
            so_far(report())
        if wanted.lists:
            rows += list_rows(bench, queries, passage_tokens, tell)
            so_far(report())
        if wanted.profile:
            profiles += _profiles(bench, wanted.batches[0], wanted.max_lengths[0], tell)
        for size in [size for size in sizes if size <= len(text.sentences)]:
            so_far(report())
            rows += epoch_rows(
                folder,
                text.sentences[:size],
                max_length=wanted.max_lengths[0],
                data=wanted.data,
                papers_step=_papers_step(rows, wanted.max_lengths[0]),
                scratch=scratch,
                tell=tell,
            )
        return report()


def _papers_step(rows: Sequence[Row], max_length: int) -> float | None:
    """Seconds of a step of the papers' loop at an epoch's batch size, if that was measured."""
    wanted = (PAPERS, BATCH, max_length)
    return next((row.seconds for row in rows if (row.what, row.batch, row.max_length) == wanted), None)


def _profiles(bench: StepBench, batch: int, max_length: int, tell: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Of SimCSE's step, and of each recipe's that was named."""
    on_gpu = bench.device.type == "cuda"
    for name, recipe in {OURS: SIMCSE, **bench.named_recipes()}.items():
        tell(f"batch {batch}, {max_length} tokens: {name}, profile")
        steps = training_steps(
            bench.folder, bench.corpus, batch_size=batch, max_length=max_length, compile=on_gpu, recipe=recipe
        )
        try:
            found = profile_steps(steps, bench.warm_up, bench.device)
        finally:
            steps.close()
            release(bench.device)
        yield {"what": name, "batch": batch, "max_length": max_length, **found}


def _lengths(bench: StepBench, max_length: int) -> str:
    cut = bench.lengths.clip(max=max_length)
    return f"{cut.mean():.1f} tokens a sentence when cut at {max_length}, which {(cut == max_length).mean():.0%} reach"


def _left_out(bench: StepBench) -> list[str]:
    notes = []
    if bench.peers and not peer_installed():
        notes.append(MISSING_PEER)
    if bench.sizes is None:
        notes.append("no arithmetic floor: the operations of this architecture are not counted here.")
    return notes
