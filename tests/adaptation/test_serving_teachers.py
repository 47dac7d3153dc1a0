"""Teachers as set-ups of their own: told where they are better, and chosen if they may serve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_adapt import PLAN

import nearer
from nearer.adaptation import adapt as arguments
from nearer.adaptation import stages
from nearer.adaptation.adapt import adapt
from nearer.adaptation.advice import repeat_command
from nearer.adaptation.outcome import Outcome
from nearer.adaptation.tournament import JUDGED, OF_WORDS, WEIGHTS, Contender, Standing
from nearer.errors import SettingError

TEACHER = Contender("teacher", teacher=True)
Run = Callable[..., Outcome]


@pytest.fixture
def run(documents: Path, models: dict[str, Any], teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Adapt with a small plan and a teacher that is trusted, and chosen wherever it takes part."""

    def prefer_teacher(standings: Sequence[Standing], base: Contender) -> Standing:
        by_contender = {each.contender: each for each in standings}
        return by_contender.get(TEACHER, by_contender[base])

    def run(name: str, *, serve_teachers: bool) -> Outcome:
        monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: PLAN)
        monkeypatch.setattr(stages, "best_fusion", lambda *given: ({"teacher": 1.0}, 3.0))
        monkeypatch.setattr(stages, "choose", prefer_teacher)
        found = adapt(documents, tmp_path / name, **models, teachers=[teacher], serve_teachers=serve_teachers)
        assert isinstance(found, Outcome)
        return found

    return run


def test_a_teacher_may_be_chosen_itself(run: Run, teacher: Path) -> None:
    outcome = run("out", serve_teachers=True)
    assert outcome.chosen.contender == TEACHER
    assert not any(name.endswith(JUDGED) for name in outcome.tests)  # a teacher would agree with itself
    assert sum(each.contender.teacher for each in outcome.standings) == len(OF_WORDS) * len(WEIGHTS)
    assert outcome.teachers == []
    texts = ["the keeper repairs a kettle", "rain"]
    found, wanted = (nearer.Encoder.load(path, device="cpu").encode(texts) for path in (outcome.model, teacher))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert "teacher, a teacher, as it is" in (outcome.folder / "report.html").read_text()
    assert "--serve-teachers" in repeat_command(outcome)


def test_what_teachers_are_worth_is_told_and_not_chosen(run: Run) -> None:
    """In the same tests with known answers as in a run that lets them take part."""
    outcome = run("out", serve_teachers=False)
    [alone] = outcome.teachers
    assert alone.contender == TEACHER
    assert any(name.endswith(JUDGED) for name in outcome.tests)
    assert not any(name.endswith(JUDGED) for name in alone.by_test)
    assert not any(each.contender.teacher for each in outcome.standings)
    assert outcome.latency["teacher"] > 0
    assert outcome.weights["teacher"] > 0
    taking_part = run("again", serve_teachers=True)
    assert taking_part.chosen.by_test == pytest.approx(alone.by_test)


def test_there_must_be_a_teacher(documents: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="serve_teachers: there is no teacher"):
        adapt(documents, tmp_path / "out", serve_teachers=True)
    assert not (tmp_path / "out").exists()
