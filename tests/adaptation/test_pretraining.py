"""What a base learns before it becomes a student: the text by itself, or a teacher's order of its sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_adapt import PLAN

from nearer.adaptation import adapt as arguments
from nearer.adaptation import stages, students
from nearer.adaptation.adapt import adapt
from nearer.adaptation.outcome import Outcome
from nearer.runs.folder import read_run

Run = Callable[..., tuple[Path, Outcome, list[str]]]


@pytest.fixture
def run(documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Adapt with a small plan, without a judge. trusted: what judges count."""

    def run(name: str, trusted: dict[str, float], **more: Any) -> tuple[Path, Outcome, list[str]]:
        told: list[str] = []
        monkeypatch.setattr(arguments, "make_plan", lambda *given, **settings: PLAN)
        monkeypatch.setattr(stages, "best_fusion", lambda *given: (trusted, 3.0))
        found = adapt(documents, tmp_path / name, **{**models, "judge": None, **more}, say=told.append)
        assert isinstance(found, Outcome)
        return tmp_path / name, found, told

    return run


def _first_sentences(documents: Path) -> set[str]:
    return {json.loads(line)["text"].split(". ")[0] + "." for line in documents.read_text().splitlines()}


def test_students_start_from_tsdae(run: Run, documents: Path) -> None:
    out, outcome, told = run("out", {"lexical": 1.0}, pretrain="tsdae")
    assert any("sentences for 5 steps; students start from there" in line for line in told)
    learnt = set((out / "sentences.txt").read_text().splitlines())
    assert 50 < len(_first_sentences(documents) & learnt) < 110  # a third of the documents is not learnt from
    config = (out / "runs" / "pairs" / "config.yaml").read_text()
    assert str(out / "runs" / "tsdae" / "model") in config
    assert "max_steps: 15" in config
    assert outcome.pretrained == "tsdae"
    assert "base after TSDAE on the text" in (out / "report.html").read_text()


def test_students_start_from_a_teachers_order_of_sentences(run: Run, documents: Path, teacher: Path) -> None:
    out, outcome, told = run("out", {"teacher": 1.0}, pretrain="teacher", teachers=[teacher])
    learnt = (out / "sentences.txt").read_text().splitlines()
    # 5 steps on 8 passages of 32 tokens are the time of one step on 256 sentences, or as many as there are
    assert any("sentences for 1 steps; students start there" in line for line in told)
    assert 0 < len(_first_sentences(documents) & set(learnt)) < 110
    first = read_run(out / "runs" / "distilled").settings
    assert (first["ranking"], first["contrastive_weight"], first["max_length"]) == ("list_net", 0.0, 32)
    assert str(teacher) in str(first["teachers"])
    assert str(out / "runs" / "distilled" / "model") in (out / "runs" / "lists" / "config.yaml").read_text()
    assert outcome.pretrained == "teacher"
    assert "after a teacher&#x27;s order of the text&#x27;s sentences" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("raw", "steps", "trusted", "asked", "way"),
    [
        (True, 80, {"teacher": 0.3}, None, "teacher"),
        (True, 79, {"teacher": 1.0}, None, None),  # too few to give some away
        (False, 1000, {"teacher": 1.0}, None, None),
        (True, 1000, {"lexical": 1.0}, None, None),  # nobody to learn from
        (True, 1000, {"teacher": 1.0}, "none", None),
        (True, 1000, {"teacher": 1.0}, "tsdae", "tsdae"),
        (False, 20, {"teacher": 1.0}, "teacher", "teacher"),
        (False, 20, {"lexical": 1.0}, "teacher", None),
    ],
)
def test_a_raw_base_learns_from_its_teacher_first(
    raw: bool, steps: int, trusted: dict[str, float], asked: str | None, way: str | None
) -> None:
    class Models:
        teachers = {"teacher": object()}  # noqa: RUF012

    class Stages:
        base_is_raw, plan, pretrain, models, told = raw, replace(PLAN, steps=steps), asked, Models(), list[str]()

        def say(self, line: str) -> None:
            self.told.append(line)

    work = Stages()
    assert students._way_to_pretrain(work, trusted) == way  # type: ignore[arg-type]
    assert bool(work.told) == (asked == "teacher" and way is None)
