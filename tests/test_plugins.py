"""A method and a kind of task of another package, from a recipe to a report: nothing of nearer knows either by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nearer.methods
from nearer.analysis.compare import compare
from nearer.evaluation import evaluate, tasks
from nearer.methods import METHODS
from nearer.report import write_report
from nearer.training import train

PLUGINS = Path(__file__).parent / "plugins"
WORDS = ["rain", "lunch", "fox", "dog", "evening", "meal"]


@pytest.fixture(autouse=True)
def _plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of `nearer_toy` and of its entry points is on the path, as if it were installed."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)
    caches = (nearer.methods._load_entry_points, tasks._installed_kinds)
    for cached in caches:
        cached.cache_clear()
    yield
    METHODS.pop("toy", None)
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def recipe(tmp_path: Path, tiny_model: Callable[[str], Path]) -> Path:
    triplets = tmp_path / "triplets.tsv"
    triplets.write_text(
        "".join(f"the {word} comes\ta {word} comes again\tthe quick brown fox jumps {word}\n" for word in WORDS)
    )
    path = tmp_path / "toy.yaml"
    path.write_text(
        f"method: toy\nmodel: {tiny_model('bert')}\npooling: cls\nhead: false\nbatch_size: 8\nmax_length: 16\n"
        f"learning_rate: 1e-3\nmax_steps: 6\nevaluate_every: 3\nselect_on: toy:{triplets}\ntest_on: toy:{triplets}\n"
    )
    return path


def test_trained_evaluated_compared_and_reported(recipe: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"the {one} comes over {n} {two}\n" for n, one in enumerate(WORDS) for two in WORDS))
    run = train(recipe, corpus, out=tmp_path / "run")
    assert run.scores is not None
    assert [score.kind for score in run.scores.scores] == ["toy"]
    name = f"toy:{tmp_path / 'triplets.tsv'}"
    model = run.load(device="cpu")
    assert evaluate(model, name)["triplets"] == run.scores["triplets"]
    other = train(recipe, corpus, out=tmp_path / "other", settings={"detection_weight": 0.0, "seed": 1})
    compared = compare([model, other.load(device="cpu")], tasks.load_tasks([name], None))
    assert compared.differences[0].interval is not None
    page = tmp_path / "report.html"
    write_report([run.folder, other.folder], page)
    shown = page.read_text(encoding="utf-8")
    assert "Toy from" in shown
    assert "detection" in shown
