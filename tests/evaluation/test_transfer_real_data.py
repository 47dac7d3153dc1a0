"""SentEval's real sets, where they are at hand: their counts, and the stacked scores beside those one after another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import one_by_one_regression as plain
import pytest

from nearer.encoder import Encoder
from nearer.encoder.sources import BUNDLED
from nearer.evaluation.task import SentenceVectors
from nearer.evaluation.transfer import TransferTask
from nearer.evaluation.transfer_data import TRANSFER, load_transfer

COUNTS = {
    "mr": (10662, 0, 0),
    "cr": (3775, 0, 0),
    "subj": (10000, 0, 0),
    "mpqa": (10606, 0, 0),
    "sst2": (67349, 872, 1821),
    "trec": (5452, 0, 500),
    "mrpc": (4076, 0, 1725),
}
CLASSES = {
    "mr": [5331, 5331],
    "cr": [1368, 2407],
    "subj": [5000, 5000],
    "mpqa": [7294, 3312],
    "sst2": [29780, 37569],
    "trec": [86, 1162, 1250, 1223, 835, 896],
    "mrpc": [1323, 2753],
}


@pytest.mark.parametrize("name", list(TRANSFER))
def test_all_examples_are_there(shared_data: Path, name: str) -> None:
    task = load_transfer(name, shared_data / "senteval")
    assert (len(task.train), len(task.dev), len(task.test)) == COUNTS[name]
    assert np.bincount([example.label for example in task.train]).tolist() == CLASSES[name]


@pytest.mark.parametrize("name", list(TRANSFER))
def test_only_a_few_lines_of_two_sets_are_empty(shared_data: Path, name: str) -> None:
    task = load_transfer(name, shared_data / "senteval")
    assert sum(not text for text in task.sentences()) == {"cr": 4, "mpqa": 3}.get(name, 0)


def one_after_another(task: TransferTask, vectors: SentenceVectors) -> plain.Outcome:
    parts, setting = task.parts(vectors), plain.SETTINGS[task.setting]
    x, y = parts.examples.features.numpy(), parts.examples.labels.numpy()
    if task.design == "nested folds":
        return plain.nested_folds(x, y, setting)
    return plain.folds_then_test(x[parts.train], y[parts.train], x[parts.test], y[parts.test], setting)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting"), [("mrpc", "test"), ("trec", "test"), ("cr", "fast")])
def test_stacked_and_one_after_another_come_to_the_same_scores(shared_data: Path, name: str, setting: str) -> None:
    task = load_transfer(name, shared_data / "senteval", setting=setting, device="cpu")
    unique = list(dict.fromkeys(task.sentences()))
    encoder = Encoder.load(BUNDLED / "wiki-mini", pooling="mean", device="cpu")
    places = {sentence: place for place, sentence in enumerate(unique)}
    vectors = SentenceVectors(places, encoder.encode(unique, normalize=True))
    stacked = task.score(encoder, vectors)
    expected = one_after_another(task, vectors)
    assert stacked.figures["accuracy"] == pytest.approx(expected.accuracy, abs=0.3)
    assert stacked.figures["dev accuracy"] == pytest.approx(expected.dev_accuracy, abs=0.1)
    if name == "mrpc":
        assert stacked.figures["f1"] == pytest.approx(expected.f1, abs=0.3)
