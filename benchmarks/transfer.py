"""`nearer bench transfer`: SentEval's regressions stacked, against the same ones fitted one after another."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.machine import measure_ceilings
from benchmarks.report import Report, Row, compared, new_report
from nearer.distributed import local_device
from nearer.encoder import Encoder
from nearer.encoder.sources import model_folder
from nearer.evaluation.stacked_regression import Examples, Fits, Split, Training, fit_stacked
from nearer.evaluation.task import SentenceVectors
from nearer.evaluation.transfer import TransferTask
from nearer.evaluation.transfer_data import TRANSFER, load_transfer
from nearer.evaluation.transfer_designs import DESIGNS, SETTINGS, Fit, Outcome, Parts

STACKED, ONE_BY_ONE = "stacked", "one after another"
WARM_UP_ROWS = 256


@dataclass(frozen=True)
class TransferBench:
    """What to measure; pooling None is the model's own, and of the bundled one three side by side, 768 dimensions.

    one_by_one: fit one after another too, which takes an hour for all tasks in the setting `test`.
    """

    data: Path
    model: str = "wiki-mini"
    pooling: str | None = None
    tasks: Sequence[str] = tuple(TRANSFER)
    setting: str = "test"
    one_by_one: bool = True


def bench_transfer(wanted: TransferBench, tell: Callable[[str], None] = lambda message: None) -> Report:
    """Measure, and report; `tell` gets a line at each stage."""
    device = local_device()
    pooling = wanted.pooling or ("mean+cls+max" if wanted.model == "wiki-mini" else None)
    encoder = Encoder.load(model_folder(wanted.model), pooling=pooling, device=device)
    tasks = [load_transfer(name, wanted.data, setting=wanted.setting, device=str(device)) for name in wanted.tasks]
    sentences = list(dict.fromkeys(sentence for task in tasks for sentence in task.sentences()))
    tell(f"vectors of {len(sentences):,} sentences")
    row_of = {sentence: row for row, sentence in enumerate(sentences)}
    vectors = SentenceVectors(row_of, encoder.encode(sentences, normalize=True))
    tell("the machine's limits")
    limits = measure_ceilings(device)
    fitters: dict[str, Fit] = {STACKED: fit_stacked, **({ONE_BY_ONE: fit_one_by_one} if wanted.one_by_one else {})}
    rows: list[Row] = []
    for task in tasks:
        tell(task.name)
        rows += _task_rows(task, task.parts(vectors), fitters)
    rows += _totals(rows, fitters)
    notes = [
        f"model: {wanted.model}, pooling {encoder.settings.pooling}, {vectors.vectors.shape[1]} dimensions, vectors of "
        "length 1; the time to encode is not in the figures",
        f"setting: SentEval's {wanted.setting!r}; SST-2's last fit, which repeats another, is left out both ways",
    ]
    return new_report("transfer", device, limits, asdict(wanted), compared(rows, [ONE_BY_ONE]), notes)


def _task_rows(task: TransferTask, parts: Parts, fitters: Mapping[str, Fit]) -> list[Row]:
    rows = []
    for name, fit in fitters.items():
        _warm_up(parts.examples, fit)
        start = time.perf_counter()
        outcome = DESIGNS[task.design](parts, SETTINGS[task.setting], fit)
        seconds = time.perf_counter() - start
        rows.append(Row(f"{task.name}: {outcome.fits} fits", name, seconds, note=_scores(outcome)))
    return rows


def _scores(outcome: Outcome) -> str:
    return f"accuracy {outcome.accuracy:.2f}, dev accuracy {outcome.dev_accuracy:.2f}"


def _totals(rows: Sequence[Row], fitters: Mapping[str, Fit]) -> list[Row]:
    seconds = {name: sum(row.seconds or 0.0 for row in rows if row.what == name) for name in fitters}
    return [Row("all tasks", name, total) for name, total in seconds.items()]


def _warm_up(examples: Examples, fit: Fit) -> None:
    few = Examples(examples.features[:WARM_UP_ROWS], examples.labels[:WARM_UP_ROWS], examples.classes)
    rows = np.arange(len(few.labels))
    fit(few, [Split(rows, rows)], torch.tensor([[1e-5]]), Training("adam", 64, 0, 1, max_epochs=0))


def fit_one_by_one(examples: Examples, splits: Sequence[Split], strengths: Tensor, training: Training) -> Fits:
    """As `fit_stacked`, in the usual way: a layer, an optimiser and a loop for each fit."""
    shape = (*strengths.shape, examples.classes)
    fits = Fits(
        dev_accuracy=np.zeros(strengths.shape),
        epochs=np.zeros(strengths.shape, dtype=np.int64),
        weights=examples.features.new_zeros((*shape, examples.features.shape[1])),
        biases=examples.features.new_zeros(shape),
    )
    for row, split in enumerate(splits):
        for column, strength in enumerate(strengths[row].tolist()):
            accuracy, epochs, layer = _fit_one(examples, split, strength, training)
            fits.dev_accuracy[row, column], fits.epochs[row, column] = accuracy, epochs
            fits.weights[row, column], fits.biases[row, column] = layer.weight.data, layer.bias.data
    return fits


def _fit_one(examples: Examples, split: Split, strength: float, training: Training) -> tuple[float, int, nn.Linear]:
    device = examples.features.device
    shuffler = np.random.RandomState(training.seed)
    if split.drawn:
        shuffler.permutation(split.drawn)
    with torch.random.fork_rng():
        torch.manual_seed(training.seed)
        layer = nn.Linear(examples.features.shape[1], examples.classes).to(device)
    kinds = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    optimiser = kinds[training.optimiser](layer.parameters(), weight_decay=strength)
    train, dev = (torch.from_numpy(rows).to(device) for rows in (split.train, split.dev))
    x, y = examples.features[train], examples.labels[train]
    dev_x, dev_y = examples.features[dev], examples.labels[dev]
    best, kept, misses, epochs = -1.0, layer, 0, 0
    while misses <= training.tenacity and epochs <= training.max_epochs:
        for _ in range(training.epoch_size):
            order = torch.from_numpy(shuffler.permutation(len(x))).to(device)
            for start in range(0, len(order), training.batch_size):
                rows = order[start : start + training.batch_size]
                loss = nn.functional.cross_entropy(layer(x[rows]), y[rows])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        epochs += training.epoch_size
        with torch.no_grad():
            accuracy = float((layer(dev_x).argmax(1) == dev_y).double().mean())
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(layer)
        else:
            misses += 1
    return best, epochs, kept
