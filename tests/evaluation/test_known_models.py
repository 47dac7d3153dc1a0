"""Real models on the real STS sets, against figures that others have published or measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nearer.encoder import Encoder
from nearer.evaluation import evaluate

Real = Callable[[str], Path]
pytestmark = pytest.mark.slow


def test_minilm_has_the_figures_of_mteb(real_model: Real, shared_data: Path) -> None:
    encoder = Encoder.load(real_model("all-MiniLM-L6-v2"))
    tasks = ["sts12", "sts13", "sts14", "sts15", "sts16", "stsb"]
    results = evaluate(encoder, tasks, data=shared_data / "sts_raw")
    published = [72.37, 80.60, 75.59, 85.39, 78.99, 82.03]
    assert [results[task] for task in tasks] == pytest.approx(published, abs=0.03)


@pytest.mark.parametrize(("pooling", "average"), [("cls", 9.8), ("mean", 35.7)])
def test_raw_mobilebert(pooling: str, average: float, real_model: Real, shared_data: Path) -> None:
    encoder = Encoder.load(real_model("mobilebert-uncased"), pooling=pooling, max_length=64)
    assert evaluate(encoder, "sts", data=shared_data / "senteval").average == pytest.approx(average, abs=0.3)
