"""The chosen student is trained again on all documents: when, with what, and what is handed over."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from test_adapt import PLAN
from torch import equal

from nearer.adaptation import adapt as arguments
from nearer.adaptation import refit, stages
from nearer.adaptation.adapt import adapt
from nearer.adaptation.outcome import Outcome, tell_labels
from nearer.adaptation.tournament import Contender, Standing


def take_lists(standings: Sequence[Standing], base: Contender) -> Standing:
    return next(standing for standing in standings if standing.contender == Contender("lists"))


@pytest.fixture
def start(
    documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Adapt that chooses the student, whatever it knows."""
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: replace(PLAN, best=12))
    monkeypatch.setattr(stages, "best_fusion", lambda *given: ({"lexical": 1.0}, 3.0))
    monkeypatch.setattr(stages, "choose", take_lists)

    def go(**more: Any) -> Outcome:
        found = adapt(documents, tmp_path / "out", **{**models, "judge": None}, **more)
        assert isinstance(found, Outcome)
        return found

    return go


def is_handed_over(out: Path, run: str) -> bool:
    """Whether the model of this run is the one in the folder."""
    one, two = (load_file(folder / "model.safetensors") for folder in (out / "model", out / "runs" / run / "model"))
    return all(equal(one[name], two[name]) for name in one)


def ids_of_passages(folder: Path) -> set[str]:
    return {json.loads(line)["_id"] for line in (folder / "passages.jsonl").read_text().splitlines()}


def test_the_chosen_student_learns_from_all_documents(
    start: Callable[..., Outcome], documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    ids = [json.loads(line)["_id"] for line in documents.read_text().splitlines()]
    labels = tmp_path / "labels.tsv"
    rows = [f"the keeper number{number}\t{ids[number]}\n" for number in range(12)]
    labels.write_text("".join(["query\tdocument\n", *rows]))
    monkeypatch.setattr(refit, "measure_alone", lambda collection, name, *more: 50.0 + (name == "refit"))
    found = start(labels=labels)
    assert found.refit == refit.Refit("lists", 50.0, 51.0, kept=True)
    assert is_handed_over(out, "refit")
    assert not is_handed_over(out, "lists")
    assert ids_of_passages(out / "lists-of-all") - ids_of_passages(out / "lists")
    assert found.labels is not None
    assert found.labels.refit is not None
    assert found.labels.refit.contender == Contender("refit")
    assert found.labels.refit_alone == found.labels.refit  # nothing stands beside it
    assert any("trained again on all documents" in line for line in tell_labels(found))
    page = (out / "report.html").read_text()
    assert "with the documents that the tests had held out, and this is what lies in the folder" in page
    assert json.loads((out / "results.json").read_text())["refit"]["kept"] is True
    # the same again takes what is there, however little time there is now
    monkeypatch.setattr(stages, "parse_budget", lambda text: 0.0)
    again = start(labels=labels)
    assert again.refit == found.refit
    assert again.labels == found.labels


def test_one_that_does_worse_is_dropped(
    start: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refit, "measure_alone", lambda collection, name, *more: 50.0 - (name == "refit"))
    told: list[str] = []
    found = start(say=told.append)
    assert found.refit == refit.Refit("lists", 50.0, 49.0, kept=False)
    assert is_handed_over(tmp_path / "out", "lists")
    assert any("so lists is kept" in line for line in told)
    assert "so it was dropped" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("why", ["time", "held out", "base"])
def test_when_it_is_not_worth_it(
    start: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "held out":
        monkeypatch.setattr(refit, "LEAST_HELD_OUT", 0.9)
    if why == "base":
        monkeypatch.setattr(
            stages, "choose", lambda standings, base: next(each for each in standings if each.contender == base)
        )
    if why == "time":
        monkeypatch.setattr(stages, "parse_budget", lambda text: 0.0)
    found = start()
    assert found.refit is None
    assert not (tmp_path / "out" / "runs" / "refit").exists()
    assert "trained again" not in (tmp_path / "out" / "report.html").read_text()


def test_it_goes_on_after_an_interruption_however_little_time_is_left(
    start: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(refit, "measure_alone", lambda *given: 50.0)
    with monkeypatch.context() as patched:
        patched.setattr(refit, "train_student", interrupt)
        with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
            start()
    monkeypatch.setattr(stages, "parse_budget", lambda text: 0.0)
    assert start().refit == refit.Refit("lists", 50.0, 50.0, kept=True)
    assert is_handed_over(tmp_path / "out", "refit")
