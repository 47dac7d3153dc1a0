"""Whole runs of DebCSE on a tiny model and a small file of debiased samples."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from two_processes import in_processes

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.report import write_report
from nearer.training import resume, train
from nearer.training.loop import Interrupted
from nearer.training.recipes import load_recipe
from nearer.training.trainer import Trainer

NO_TASKS = {"select_on": [], "test_on": []}


@pytest.fixture
def samples(corpus: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """Words have partners: a positive has the anchor's partners for most words, a negative others for a third."""
    draw = random.Random(4)
    lines = corpus.read_text().split("\n")[:90]
    words = sorted({word for line in lines for word in line.split()})
    partner = {word: words[place ^ 1] for place, word in enumerate(words[: len(words) // 2 * 2])}
    made = []
    for line in lines:
        positives = [[partner.get(w, w) if draw.random() < 0.8 else w for w in line.split()] for _ in range(2)]
        negatives = [line.split() for _ in range(2)]
        for negative in negatives:
            for place in draw.sample(range(len(negative)), -(-len(negative) // 3)):
                negative[place] = draw.choice(words)
        sample = {"positives": positives, "negatives": negatives}
        made.append({"number": len(made), "anchor": line} | {k: [" ".join(s) for s in v] for k, v in sample.items()})
    return made


@pytest.fixture
def debiased(samples: list[dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "debiased.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.fixture
def debcse(recipe: Path, tmp_path: Path) -> Path:
    values = yaml.safe_load(recipe.read_text()) | {"method": "debcse", "data": "debiased"}
    path = tmp_path / "debcse.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in metrics(folder) if "loss" in line]


def nearer_positives(model: Encoder, samples: list[dict[str, Any]]) -> float:
    """The share of anchors whose first positive is nearer than their first negative."""
    anchors, positives, negatives = (
        model.encode([text(sample) for sample in samples], normalize=True)
        for text in (lambda s: s["anchor"], lambda s: s["positives"][0], lambda s: s["negatives"][0])
    )
    return float(((anchors * positives).sum(axis=1) > (anchors * negatives).sum(axis=1)).mean())


def test_what_looks_different_but_means_the_same_becomes_nearer(
    debcse: Path, debiased: Path, samples: list[dict[str, Any]], tmp_path: Path
) -> None:
    settings = {"learning_rate": 3e-3, "epochs": 8, "pooling": "mean", "head": False, **NO_TASKS}
    run = train(debcse, debiased, out=tmp_path / "run", settings=settings)
    values = losses(run.folder)
    assert len(values) == 96  # 90 samples, 8 a batch, the last batch of two, 8 epochs
    assert np.isfinite(values).all()
    assert np.mean(values[-12:]) < np.mean(values[:12]) - 0.5
    trained = run.load("cpu")
    assert isinstance(trained, Encoder)
    raw = Encoder.load(yaml.safe_load(debcse.read_text())["model"], pooling="mean", device="cpu")
    assert nearer_positives(trained, samples) > nearer_positives(raw, samples) + 0.3


def test_what_a_run_leaves_behind(debcse: Path, debiased: Path, tmp_path: Path) -> None:
    run = train(debcse, debiased, out=tmp_path / "run", settings={"epochs": 1})
    assert run.scores is not None
    own = json.loads((run.model / "nearer.json").read_text())["provenance"]
    assert (own["method"], own["records"], own["dropped"]) == ("debcse", 90, 0)
    assert (own["positives_per_record"], own["negatives_per_record"]) == (2, 2)
    page = write_report(run.folder, tmp_path / "report.html").read_text()
    assert "DebCSE" in page
    again = resume(run.folder)  # all is there: nothing is trained or lost
    assert again.best_step == run.best_step


def test_a_resumed_run_gives_the_same_weights(
    debcse: Path,
    debiased: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    settings = {"max_steps": 9, "positives_per_step": 1, "test_on": []}
    whole = train(debcse, debiased, out=tmp_path / "whole", settings=settings)
    taken = Trainer.advance

    def stopped(self: Trainer) -> Any:
        if self.step == 5:
            raise KeyboardInterrupt
        return taken(self)

    monkeypatch.setattr(Trainer, "advance", stopped)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        train(debcse, debiased, out=tmp_path / "parts", settings={**settings, "checkpoint_every": 2})
    monkeypatch.setattr(Trainer, "advance", taken)
    resume(tmp_path / "parts")
    one, other = weights(whole.folder), weights(tmp_path / "parts")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_batch_norm_is_over_the_whole_batch_whoever_encodes_it(debcse: Path, debiased: Path, tmp_path: Path) -> None:
    """In one process, in two with 3 and 2 rows, and in pieces of 4 sentences."""
    settings = {"batch_size": 5, "dropout": 0.0, "learning_rate": 1e-5, "max_steps": 16, **NO_TASKS}
    train(debcse, debiased, out=tmp_path / "one", settings=settings)
    train(debcse, debiased, out=tmp_path / "pieces", settings={**settings, "piece": 4})
    in_processes(2, str(debcse), str(debiased), str(tmp_path / "two"), yaml.safe_dump(settings))
    wanted = metrics(tmp_path / "one")
    assert len(wanted) == 16
    for name in ("two", "pieces"):
        for found, line in zip(metrics(tmp_path / name), wanted, strict=True):
            assert found["loss"] == pytest.approx(line["loss"], rel=1e-4, abs=1e-5)
            assert found["gradient_norm"] == pytest.approx(line["gradient_norm"], rel=1e-2, abs=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"alternating": False},
        {"mined_negatives": False},
        {"mined_positives": False},
        {"as_printed": True},
        {"mined_negatives": False, "mined_positives": False, "data": "sentences"},
    ],
    ids=str,
)
def test_ablations_run(settings: dict[str, Any], debcse: Path, debiased: Path, corpus: Path, tmp_path: Path) -> None:
    text = corpus if settings.get("data") == "sentences" else debiased
    run = train(debcse, text, out=tmp_path / "run", settings={"max_steps": 4, **NO_TASKS, **settings})
    assert len(losses(run.folder)) == 4
    assert np.isfinite(losses(run.folder)).all()


def test_samples_with_other_counts_are_left_out_and_noted(debcse: Path, debiased: Path, tmp_path: Path) -> None:
    with debiased.open("a") as file:
        file.write('{"anchor": "rain", "positives": ["rain comes"], "negatives": ["a fox", "a dog"]}\n')
    run = train(debcse, debiased, out=tmp_path / "run", settings={"max_steps": 2, **NO_TASKS})
    own = json.loads((run.model / "nearer.json").read_text())["provenance"]
    assert (own["records"], own["dropped"]) == (90, 1)


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("a fox\na dog\n", {"data": "sentences"}, r"has no positives to learn from; set mined_positives=false"),
        ("a fox\na dog\n", {}, r"cannot tell which columns make a debiased sample"),
        ('{"anchor": "rain", "positives": "fox", "negatives": ["dog"]}\n', {}, r"nothing in it could be used"),
        ('{"anchor": "rain", "positives": ["fox"], "negatives": ["dog"]}\n', {}, r"1 records do not make one batch"),
    ],
)
def test_text_that_cannot_be_used(
    text: str, settings: dict[str, Any], message: str, debcse: Path, tmp_path: Path
) -> None:
    path = tmp_path / ("text.jsonl" if text.startswith("{") else "text.txt")
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        train(debcse, path, out=tmp_path / "run", settings=settings)


def test_another_method_says_what_it_learns_from(debcse: Path, debiased: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="debiased samples; SimCSE learns from sentences; pairs or triplets"):
        train(debcse, debiased, out=tmp_path / "run", settings={"method": "simcse"})


@pytest.mark.parametrize(
    ("name", "rate"), [("bert-base", 2.5e-5), ("roberta-base", 2.5e-5), ("bert-large", 5e-6), ("roberta-large", 5e-6)]
)
def test_the_paper_s_numbers(name: str, rate: float) -> None:
    """DebCSE, Section 5.1."""
    recipe = load_recipe(f"debcse-{name}")
    training = recipe.training
    assert (training.data, training.batch_size, training.learning_rate, training.epochs) == ("debiased", 64, rate, 1)
    assert (training.select_on, training.evaluate_every) == (["stsb-dev", "sick-r-dev"], 125)
    assert recipe.method.model_dump() == {
        "temperature": 0.05,
        "alternating": True,
        "mined_negatives": True,
        "mined_positives": True,
        "positives_per_step": None,
        "as_printed": False,
    }
