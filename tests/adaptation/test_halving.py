"""Successive halving: who goes on, what is kept of it, and interruptions at every point of a rung."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.torch import load_file
from test_made_tests import passage, words_of
from torch import equal

from nearer.adaptation import adapt as arguments
from nearer.adaptation import halving, stages
from nearer.adaptation.adapt import adapt
from nearer.adaptation.halving import measure_alone
from nearer.adaptation.judging import Collection
from nearer.adaptation.kept import Kept
from nearer.adaptation.made_tests import make_tests
from nearer.adaptation.outcome import Outcome
from nearer.adaptation.plan import Plan
from nearer.adaptation.tournament import Rung
from nearer.encoder import Encoder
from nearer.errors import DamagedError
from nearer.training import resume, train

PLAN = Plan(150, 30, 12, False, 40, 20, 4, 2, 32, {"tests": 1.0}, halving=True)


@pytest.fixture
def start(documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two students may train: one learns BM25's lists, one pairs."""
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: PLAN)
    monkeypatch.setattr(stages, "best_fusion", lambda *given: ({"lexical": 1.0}, 3.0))

    def go(say: Callable[[str], None] = lambda line: None) -> Any:
        return adapt(documents, tmp_path / "out", **{**models, "judge": None}, say=say)

    return go


def steps(run: Path) -> int:
    return len((run / "metrics.jsonl").read_text().splitlines())


def interrupt(*given: Any, **more: Any) -> Any:
    raise KeyboardInterrupt


def refuse(*given: Any, **more: Any) -> Any:
    raise AssertionError("this was done before")


def test_the_better_student_goes_on_whenever_it_is_interrupted(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    runs, kept = out / "runs", out / "work" / "rung-00000005.json"
    with monkeypatch.context() as patched:  # a process was killed before its run began
        patched.setattr(halving, "train", interrupt)
        with pytest.raises(KeyboardInterrupt):
            start()
    (runs / "lists").mkdir(parents=True)
    (runs / "lists" / ".lock").touch()
    with monkeypatch.context() as patched:  # both have trained so far, and nothing is decided
        patched.setattr(halving, "measure_alone", interrupt)
        with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
            start()
    assert {run.name: steps(run) for run in runs.iterdir()} == {"lists": 5, "pairs": 5}
    assert not kept.exists()
    monkeypatch.setattr(halving, "train", refuse)
    monkeypatch.setattr(  # on every machine the same one is better
        halving,
        "measure_alone",
        lambda collection, name, *more: measure_alone(collection, name, *more) + 100 * ("pairs" in name),
    )
    with monkeypatch.context() as patched:  # it is decided, and the better one does not yet go on
        patched.setattr(
            halving, "resume", lambda *given, **more: (resume if more["stop_after"] else interrupt)(*given, **more)
        )
        with pytest.raises(KeyboardInterrupt):
            start()
    decided = json.loads(kept.read_text())
    monkeypatch.setattr(halving, "measure_alone", refuse)
    told: list[str] = []
    found = start(told.append)

    assert isinstance(found, Outcome)
    [rung] = found.rungs
    assert (rung.kept, rung.dropped) == (["pairs"], ["lists"])
    assert (decided["scores"], decided["kept"]) == (rung.scores, rung.kept)
    assert str(rung) in told
    assert any("two students, 5 steps each, the better one goes on to 20 steps" in line for line in told)
    assert {each.contender.encoder for each in found.standings} == {"base", "pairs"}
    assert {run.name: steps(run) for run in runs.iterdir()} == {"pairs": 20, "lists": 5}
    assert json.loads((out / "results.json").read_text())["rungs"][0]["scores"] == rung.scores
    page = (out / "report.html").read_text()
    assert "Training went on with pairs and was ended for lists" in page
    assert f"lists {rung.scores['lists']:.2f}" in page
    # as if it never had been stopped
    config = yaml.safe_load((runs / "pairs" / "config.yaml").read_text())
    straight = train(config["recipe"], config["corpus"], out=tmp_path / "straight", settings=config["settings"])
    one, other = (load_file(folder / "model.safetensors") for folder in (straight.model, runs / "pairs" / "model"))
    assert one.keys() == other.keys()
    assert all(equal(one[name], other[name]) for name in one)

    # a decision that is damaged is not taken for another one
    kept.write_text(kept.read_text().replace('"step": 5', '"step": 4'))
    with pytest.raises(DamagedError, match="remove it, and students are compared again"):
        start()


def test_an_encoder_alone_is_measured_as_in_the_tournament(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    passages = [passage(number) for number in range(120)]
    made = make_tests(passages, np.arange(120) < 50, words_of(passages), queries=30, random=np.random.default_rng(1))
    collection = Collection([one.titled for one in passages], made, Kept(tmp_path / "kept"), progress=False)
    collection.add_encoder("base", Encoder.load(tiny_model("roberta"), pooling="mean", device="cpu"), "base")
    noise = np.random.default_rng(2).normal(scale=0.05, size=collection.vectors["base"].shape)
    kept = collection.vectors["base"]
    collection.vectors["base"] = (kept + noise).astype(np.float16)  # random models put many texts all but alike
    wanted = [collection.measure(test, best=20, by=["base"], key="x").ndcg({"base": 1.0}).mean() for test in made]
    assert measure_alone(collection, "base") == pytest.approx(100 * np.mean(wanted), abs=1e-6)
    collection.vectors["base"] = np.tile(kept[:1], (len(kept), 1))  # one that puts all texts alike finds by chance
    assert measure_alone(collection, "base") < 100 / 50


def test_words_of_a_rung() -> None:
    rung = Rung(1250, {"lists": 41.26, "vectors": 43.04, "pairs": 30.0}, ["vectors"])
    assert rung.dropped == ["lists", "pairs"]
    assert str(rung) == (
        "students after 1,250 steps, NDCG@10 of each alone: lists 41.3, vectors 43.0, pairs 30.0; goes on: vectors; "
        "dropped: lists, pairs"
    )
