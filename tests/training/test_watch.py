"""Warnings: once each, when there is something to warn of, and not otherwise."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from nearer.training.loop import Watch
from nearer.training.selection import DevScore


def dev(score: float, uniform: float = -2.5) -> DevScore:
    return DevScore(score, {}, uniform)


def test_a_good_run_is_left_in_peace() -> None:
    watch = Watch()
    for step, score in enumerate((60.0, 70.0, 75.0, 74.8, 75.2)):
        assert watch.evaluation(0.5 / (step + 1), dev(score, -1.0 - step / 4)) == []


def test_a_loss_near_zero_with_falling_dev_is_overtraining_told_once() -> None:
    watch = Watch()
    assert watch.evaluation(0.3, dev(72)) == []
    assert watch.evaluation(0.005, dev(71.5)) == []
    [warning] = watch.evaluation(0.004, dev(69))
    assert "near 0" in warning
    assert "72.00 → 69.00" in warning
    assert watch.evaluation(0.003, dev(68)) == []


def test_vectors_drawing_together_is_collapse() -> None:
    watch = Watch()
    assert watch.evaluation(2.0, dev(70, -2.6)) == []
    [warning] = watch.evaluation(3.0, dev(40, -1.2))
    assert "collapses" in warning


def test_drawing_together_and_getting_better_is_none() -> None:
    """As a student does whose teacher's vectors lie close together."""
    watch = Watch()
    assert watch.evaluation(6.0, dev(38.5, -1.9)) == []
    assert watch.evaluation(5.5, dev(45.6, -1.0)) == []
    assert watch.evaluation(5.4, dev(48.2, -1.1)) == []


def test_a_resumed_run_says_nothing_twice() -> None:
    watch = Watch()
    watch.evaluation(0.3, dev(72))
    watch.evaluation(0.004, dev(69))
    assert Watch(**asdict(watch)).evaluation(0.003, dev(68)) == []


@pytest.mark.parametrize(("duplicates", "told"), [(1, 0), (30, 1)])
def test_many_duplicates_in_the_text(duplicates: int, told: int) -> None:
    report = {"kept": 1000, "faults": {"duplicate": {"count": duplicates}}}
    assert len(Watch().text(report)) == told
