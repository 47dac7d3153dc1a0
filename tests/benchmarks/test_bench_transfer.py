"""`nearer bench transfer`, and the usual loop that it measures against."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.report import Report
from benchmarks.transfer import ONE_BY_ONE, STACKED, fit_one_by_one
from nearer.evaluation.stacked_regression import Examples, Split, Training, fit_stacked, held_out
from nearer.evaluation.transfer_data import TRANSFER


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CR in miniature."""
    small = []
    for file, word in zip(TRANSFER["cr"].train, ("good", "bad"), strict=True):
        path = tmp_path / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{word} {n % 7} lunch\n" for n in range(40)))
        small.append(replace(file, count=40))
    monkeypatch.setitem(TRANSFER, "cr", replace(TRANSFER["cr"], train=tuple(small)))
    return tmp_path


def test_both_ways_with_their_scores(bench, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = bench("transfer", "--data", data, "--tasks", "cr", "--setting", "fast", "--device", "cpu", "--json", path)
    assert done.code == 0, done.err
    report = Report.from_json(path.read_text(encoding="utf-8"))
    stacked, other, *totals = report.rows
    assert [row.what for row in report.rows] == [STACKED, ONE_BY_ONE, STACKED, ONE_BY_ONE]
    assert stacked.subject == "CR: 105 fits"
    assert stacked.times_faster == {ONE_BY_ONE: pytest.approx(other.seconds / stacked.seconds)}
    assert stacked.note == other.note == "accuracy 100.00, dev accuracy 100.00"
    assert [row.seconds for row in totals] == [stacked.seconds, other.seconds]
    assert "768 dimensions" in done.out


def test_stacked_alone(bench, data: Path) -> None:
    done = bench("transfer", "--data", data, "--tasks", "cr", "--setting", "fast", "--no-one-by-one", "--device", "cpu")
    assert done.code == 0, done.err
    assert ONE_BY_ONE not in done.out


def test_an_unknown_task(bench, data: Path) -> None:
    done = bench("transfer", "--data", data, "--tasks", "cr,nothing", "--device", "cpu")
    assert done.code != 0
    assert "'nothing' is not one of mr, cr" in done.err


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_the_usual_loop_fits_what_the_stack_fits(optimiser: str) -> None:
    random = np.random.RandomState(0)
    labels = random.randint(0, 2, 90)
    features = random.normal(size=(90, 4)) + labels[:, None]
    examples = Examples(torch.from_numpy(features.astype(np.float32)), torch.from_numpy(labels), 2)
    splits = [Split(np.arange(60), np.arange(60, 90)), held_out(np.arange(90), 0.1, 1111)]
    strengths = torch.tensor([[1e-5, 1e-2], [1e-4, 1e-3]])
    training = Training(optimiser, batch_size=16, tenacity=2, epoch_size=2)  # type: ignore[arg-type]
    usual, stacked = (fit(examples, splits, strengths, training) for fit in (fit_one_by_one, fit_stacked))
    assert usual.epochs.tolist() == stacked.epochs.tolist()
    assert usual.dev_accuracy == pytest.approx(stacked.dev_accuracy)
    torch.testing.assert_close(usual.weights, stacked.weights, atol=1e-4, rtol=1e-3)
