"""Tests whose answers are what the trusted judges put first: what they ask, and what is kept from learning."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_adapt import PLAN

import nearer
from nearer.adaptation import adapt as arguments
from nearer.adaptation import stages
from nearer.adaptation.adapt import adapt
from nearer.adaptation.judged_tests import ASKED_OF_LOG
from nearer.adaptation.outcome import Outcome

WORDS = ("kettle", "storm", "harbour", "keeper", "violin", "garden", "letter", "engine", "bridge", "winter")
LOG = [f"who knows the {one} of number{number}" for number, one in enumerate(WORDS * 16)]


@pytest.fixture
def start(
    documents: Path, models: dict[str, Any], teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Adapt with a teacher that is trusted, whatever it knows."""
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: replace(PLAN, best=12, to_learn=200))

    def go(weights: dict[str, float], **more: Any) -> Outcome:
        monkeypatch.setattr(stages, "best_fusion", lambda *given: (weights, 3.0))
        found = adapt(documents, tmp_path / "out", **{**models, "judge": None}, teachers=[teacher], **more)
        assert isinstance(found, Outcome)
        return found

    return go


def learnt_queries(out: Path) -> set[str]:
    return {json.loads(line)["text"] for line in (out / "lists" / "queries.jsonl").read_text().splitlines()}


def test_a_log_is_asked_with_queries_that_nobody_learns(start: Callable[..., Outcome], tmp_path: Path) -> None:
    found = start({"teacher": 1.0}, queries=LOG)
    test = found.tests["log as judged"]
    assert [name for name in found.tests if name.endswith("judged")] == ["log as judged"]
    assert test["queries"] == min(PLAN.queries, ASKED_OF_LOG * len(LOG))
    assert test["weight"] == pytest.approx(0.5)
    assert sum(each["weight"] for each in found.tests.values()) == pytest.approx(1)
    assert 0 < test["overlap"] < 1
    learnt = learnt_queries(tmp_path / "out") & set(LOG)
    assert 0 < len(learnt) <= len(LOG) - test["queries"]
    kept = np.load(tmp_path / "out/work/kept/test-log-before-0.npz")
    assert kept["numbers"].max() < found.passages  # what passages say in other tests is not shown
    assert "as judged" in (tmp_path / "out/report.html").read_text()
    assert found.asked["log"] == len(LOG)


def test_in_their_own_words(start: Callable[..., Outcome], tmp_path: Path) -> None:
    found = start({"teacher": 1.0}, asked_in="own")
    known = [name for name in found.tests if not name.endswith("judged")]
    assert known
    assert all(name.endswith("in other words") for name in known)
    assert [name for name in found.tests if name.endswith("judged")] == [f"{name} as judged" for name in known]
    assert "people ask in their own words" in (tmp_path / "out/report.html").read_text()


def test_without_a_log_made_queries_are_asked(start: Callable[..., Outcome]) -> None:
    found = start({"teacher": 1.0}, queries=LOG[:20])
    known = [name for name in found.tests if not name.endswith("judged")]
    asked = [name for name in found.tests if name.endswith("judged")]
    assert asked == [f"{name} as judged" for name in known if not name.endswith("in other words")]
    assert sum(found.tests[name]["weight"] for name in asked) == pytest.approx(0.5)
    for name in asked:
        assert found.tests[name]["queries"] == found.tests[name.removesuffix(" as judged")]["queries"]


def test_without_a_trusted_teacher_there_are_none(start: Callable[..., Outcome], tmp_path: Path) -> None:
    found = start({"lexical": 1.0}, queries=LOG)
    assert not [name for name in found.tests if name.endswith("judged")]
    assert len(learnt_queries(tmp_path / "out") & set(LOG)) > (1 - ASKED_OF_LOG) * len(LOG)
    assert "as judged" not in (tmp_path / "out/report.html").read_text()


def test_an_encoder_that_is_the_teacher_agrees_with_it(
    documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base itself under another name: nothing is nearer to it than the base."""
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: replace(PLAN, steps=0))
    monkeypatch.setattr(stages, "best_fusion", lambda *given: ({"same": 1.0}, 3.0))
    nearer.Encoder.load(models["model"], device="cpu").save(tmp_path / "same")
    teachers = [tmp_path / "same"]
    found = adapt(documents, tmp_path / "out", **{**models, "judge": None}, teachers=teachers, queries=LOG)
    assert isinstance(found, Outcome)
    by_contender = {standing.contender.name: standing.by_test["log as judged"] for standing in found.standings}
    assert by_contender["base"] == pytest.approx(100)
    assert all(value < 100 for name, value in by_contender.items() if name != "base")
