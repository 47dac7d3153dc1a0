"""`nearer compare` on tiny models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nearer.encoder import Encoder
from nearer.evaluation import evaluate


@pytest.fixture
def other(tiny_model: Callable[[str], Path], tmp_path: Path) -> Path:
    Encoder.load(tiny_model("bert"), pooling="cls", device="cpu").save(tmp_path / "other")
    return tmp_path / "other"


def test_two_models_on_the_bundled_pairs(nearer: Callable, pooled: Path, other: Path, tmp_path: Path) -> None:
    report = tmp_path / "compared.json"
    options = ("--tasks", "everyday", "--resamples", 100, "--device", "cpu")
    outcome = nearer("compare", pooled, other, *options, "--json", report)
    assert outcome.code == 0
    assert "paired bootstrap (100 resamples)" in outcome.out
    written = json.loads(report.read_text())
    scores = [evaluate(Encoder.load(model, device="cpu"), "everyday").average for model in (pooled, other)]
    assert [results["average"] for results in written["results"]] == pytest.approx(scores)
    [difference] = written["differences"]
    assert difference["difference"] == pytest.approx(scores[1] - scores[0])
    assert difference["interval"]["low"] <= difference["difference"] <= difference["interval"]["high"]
    assert written["published"] == []  # nobody published figures of these pairs
    printed = nearer("compare", pooled, other, *options, "--json", "-")
    assert json.loads(printed.out)["differences"] == written["differences"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{model}"], "models: one given, at least two are needed"),
        (["{model}", "{model}", "--tasks", "stsb"], "tasks: 'stsb' needs"),
        (["{model}", "{model}", "--tasks", "everyday", "--published", "GPT"], "--published: 'gpt' is none of"),
        (["{model}", "{model}", "--tasks", "everyday", "--json", "no/where.json"], "the folder no does not exist"),
        (["{model}", "nowhere", "--tasks", "everyday"], "nowhere"),
    ],
)
def test_mistakes_in_one_line(nearer: Callable, pooled: Path, arguments: list[str], message: str) -> None:
    assert message in nearer("compare", *(part.format(model=pooled) for part in arguments), "--device", "cpu").error
