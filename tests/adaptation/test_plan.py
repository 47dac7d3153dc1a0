"""Budgets and plans."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.adaptation.plan import (
    ENOUGH_QUERIES,
    FEWEST_PASSAGES,
    FEWEST_QUERIES,
    FEWEST_STEPS,
    MOST_QUERIES,
    MOST_STEPS,
    RUNG,
    TWO_FROM,
    Expected,
    Plan,
    make_plan,
    parse_budget,
    settle,
)
from nearer.adaptation.speeds import Speeds
from nearer.adaptation.state import find_plan, keep_plan, open_work
from nearer.adaptation.tournament import FASTER, LISTS, PAIRS
from nearer.errors import InputError, SettingError
from nearer.storage.sealed import write_sealed_json


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("20min", 1200), ("1.5 h", 5400), ("3", 180), ("2M", 120)])
def test_budgets(text: str, seconds: float) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3min", "1s", "nan", "9999h", "3 weeks", "1e9s"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(SettingError, match="budget"):
        parse_budget(text)


@given(
    st.floats(10, 1e6),
    st.integers(1, 10**7),
    st.floats(1e-6, 1),
    st.floats(0, 1),
    st.none() | st.floats(1e-6, 1),
    st.booleans(),
)
def test_more_time_never_does_less(
    budget: float, passages: int, passage: float, taught: float, pair: float | None, on_gpu: bool
) -> None:
    speeds = Speeds(passage, taught, pair)
    plan, longer = (make_plan(seconds, passages, speeds, on_gpu=on_gpu) for seconds in (budget, 4 * budget))
    assert plan.queries >= FEWEST_QUERIES
    assert plan.passages >= min(passages, FEWEST_PASSAGES)
    assert plan.steps == 0 or plan.steps >= FEWEST_STEPS
    assert plan.reranks <= (pair is not None)
    assert longer.reranks >= plan.reranks
    if longer.reranks == plan.reranks:
        assert longer.queries >= plan.queries
        assert longer.passages >= plan.passages
        assert (longer.queries, longer.passages, longer.steps >= plan.steps) >= (plan.queries, plan.passages, True)


def test_a_fast_machine_does_everything() -> None:
    plan = make_plan(1200, 57_600, Speeds(1 / 4000, 1 / 1500, 1 / 8000), on_gpu=True)
    assert (plan.passages, plan.queries, plan.reranks, plan.steps, plan.halving) == (57_600, 400, True, 2000, True)
    assert make_plan(1200, 57_600, Speeds(1 / 4000, 0.0, 1 / 8000), on_gpu=True).halving  # a judge alone teaches
    assert sum(plan.seconds.values()) < 1200
    assert "2,000 steps" in str(plan)


def test_labelled_queries_take_time_as_well() -> None:
    fast, slow = (
        make_plan(1200, 5_000, Speeds(1 / each, 0.0, 1 / each), on_gpu=False, labelled=640) for each in (4000, 2)
    )
    assert fast.labelled == 640
    assert slow.labelled == 100
    assert "640 labelled queries" in str(fast)
    assert make_plan(30, 5_000, Speeds(0.1, 0.0, 0.1), on_gpu=False, labelled=60).labelled == 60


def test_tests_take_from_training_before_chance_decides_them() -> None:
    """A teacher of 0.27 s for a passage on two cores, and twenty minutes."""
    speeds = Speeds(0.03, 0.27, None)
    plan = make_plan(1200, 1_769, speeds, on_gpu=False, labelled=225, always=1_164)
    assert (plan.passages, plan.queries) == (1_164, ENOUGH_QUERIES)
    assert 0.35 * 1200 < plan.seconds["tests"] <= 0.55 * 1200
    assert plan.trains
    less, more = (make_plan(budget, 1_769, speeds, on_gpu=False, always=1_164) for budget in (600, 3600))
    assert less.queries < ENOUGH_QUERIES < more.queries
    assert more.seconds["tests"] <= 0.35 * 3600


def test_a_language_model_has_its_share_of_the_time() -> None:
    without = make_plan(1200, 5_000, Speeds(1 / 400, 0.0, None), on_gpu=False)
    plan = make_plan(1200, 5_000, Speeds(1 / 400, 0.0, None, 0.1), on_gpu=False, llm_test=True)
    assert plan.written_tests == plan.queries == 400
    assert 0 < plan.written <= plan.to_learn // 2
    assert plan.seconds["writing"] <= 0.2 * 1200
    assert plan.steps <= without.steps
    slow = make_plan(1200, 5_000, Speeds(1 / 400, 0.0, None, 20.0), on_gpu=False, llm_test=True)
    assert (slow.written, slow.written_tests) == (0, 0)
    assert make_plan(1200, 5_000, Speeds(1 / 400, 0.0, None, 0.1), on_gpu=False).written_tests == 0


def test_a_slow_one_says_that_it_does_not_train() -> None:
    plan = make_plan(30, 50_000, Speeds(0.2, 0.0, 0.5), on_gpu=False)
    assert not plan.trains
    assert "no training" in str(plan)


def test_steps_are_planned_anew_when_the_tests_have_shown_the_speed() -> None:
    speeds = Speeds(0.005, 0.0, None)
    plan = make_plan(100, 500, speeds, on_gpu=False)
    assert 0 < plan.steps < 1000
    assert plan.expected is not None
    expected = plan.expected.before
    shares = (1.0, 0.3, 1.5)
    usual, faster, slower = (settle(plan, share * expected) for share in shares)
    assert plan.steps == pytest.approx(usual.steps, abs=1)
    assert slower.steps < usual.steps < faster.steps
    for settled, share in zip((usual, faster, slower), shares, strict=True):
        assert share * expected + settled.seconds["training"] <= 100
        assert settle(settled, 1e-6) == settled  # once is enough
    # tests that took all the time leave a fifth to training, and a plan without training may get some
    pressed = settle(replace(plan, expected=replace(plan.expected, step=0.05)), 6 * expected)
    assert pressed.steps == int(20 / (0.05 * 6))
    none = make_plan(60, 2_000, Speeds(0.05, 0.0, None), on_gpu=False)
    assert not none.trains
    assert none.expected is not None
    assert settle(none, 0.1 * none.expected.before).trains


@given(st.floats(10, 1e5), st.floats(1e-5, 1), st.floats(0, 1), st.floats(1e-3, 1e6), st.booleans())
def test_any_time_can_be_taken(budget: float, passage: float, taught: float, taken: float, on_gpu: bool) -> None:
    settled = settle(make_plan(budget, 1_000, Speeds(passage, taught, None), on_gpu=on_gpu), taken)
    assert settled.steps == 0 or FEWEST_STEPS <= settled.steps <= MOST_STEPS
    assert settled.seconds["training"] >= 0
    assert settled.expected is None


def test_the_most_of_queries_and_steps() -> None:
    speeds, hours = Speeds(1e-4, 1e-4, 1e-5), 36_000
    usual = make_plan(hours, 100_000, speeds, on_gpu=True)
    assert (usual.to_learn, usual.steps) == (MOST_QUERIES, MOST_STEPS)
    more = make_plan(hours, 100_000, speeds, on_gpu=True, most_queries=3 * MOST_QUERIES, most_steps=5 * MOST_STEPS)
    assert (more.to_learn, more.steps) == (3 * MOST_QUERIES, 5 * MOST_STEPS)
    assert settle(more, 1.0).steps == 5 * MOST_STEPS
    fewer = make_plan(hours, 100_000, speeds, on_gpu=True, most_queries=50, most_steps=40)
    assert (fewer.to_learn, fewer.steps, settle(fewer, 1.0).steps) == (50, 40, 40)
    none = make_plan(hours, 100_000, speeds, on_gpu=True, most_steps=0)
    assert not none.trains
    assert not settle(none, 1.0).trains
    assert "no training (as asked)" in str(none)


def test_without_training_the_tests_have_all_the_time() -> None:
    speeds = Speeds(0.02, 0.0, 0.01)
    usual, none = (make_plan(300, 3_000, speeds, on_gpu=False, most_steps=steps) for steps in (MOST_STEPS, 0))
    assert none.reranks > usual.reranks
    assert 0.35 * 300 < none.total_seconds <= 300
    speeds = Speeds(0.02, 0.0, None)
    usual, none = (make_plan(300, 9_000, speeds, on_gpu=False, most_steps=steps) for steps in (MOST_STEPS, 0))
    assert none.queries > usual.queries
    assert none.passages > usual.passages


@given(st.floats(30, 1e5), st.integers(600, 10**6), st.floats(1e-5, 0.1), st.none() | st.floats(1e-5, 0.1))
def test_queries_and_passages_share_the_time(budget: float, passages: int, passage: float, pair: float | None) -> None:
    plan = make_plan(budget, passages, Speeds(passage, 0.0, pair), on_gpu=False)
    if not plan.reranks and FEWEST_QUERIES < plan.queries < 400 and FEWEST_PASSAGES < plan.passages < passages:
        assert 0.5 < 12 * plan.queries / plan.passages < 2


def test_what_is_not_reranked_leaves_time_for_queries() -> None:
    slow, none = (make_plan(600, 2_000, Speeds(0.01, 0.0, pair), on_gpu=False) for pair in (1.0, None))
    assert not slow.reranks
    assert (slow.queries, slow.passages) == (none.queries, none.passages)


class TestTwoStudents:
    """A step takes a second."""

    ENOUGH = min(MOST_STEPS, TWO_FROM)

    def settled(
        self,
        left: float,
        second: str | None = FASTER,
        students: list[str] | None = None,
        start_up: float = 0.0,
        resuming: float = 0.0,
        student: float = 0.0,
    ) -> Plan:
        expected = Expected(
            # tests take what is expected, so a step does too
            budget=left + 1.0,
            before=1.0,
            after=0.0,
            material=0.0,
            step=1.0,
            start_up=start_up,
            resuming=resuming,
            student=student,
            second=second,
        )
        plan = Plan(500, 40, 20, False, 200, 100, 16, 4, 128, {"tests": 1.0}, expected=expected)
        return settle(plan, 1.0, students)

    def told(self, plan: Plan) -> tuple[int, bool]:
        return plan.steps, plan.halving

    def test_with_a_teacher_a_second_one_is_tried_if_that_takes_little(self) -> None:
        assert self.told(self.settled(2 * MOST_STEPS + 1)) == (MOST_STEPS, True)
        assert self.told(self.settled(1.25 * MOST_STEPS + 1)) == (MOST_STEPS, True)
        assert self.told(self.settled(1.25 * self.ENOUGH + 1)) == (self.ENOUGH, True)
        assert not self.settled(1.25 * self.ENOUGH - 1).halving
        alone = self.settled(2 * MOST_STEPS + 1, students=[LISTS])  # only one has something to learn
        assert self.told(alone) == (MOST_STEPS, False)

    def test_compiling_and_comparing_take_time_as_well(self) -> None:
        costs = (FASTER, None, 70.0, 20.0, 30.0)
        needed = 1.25 * self.ENOUGH + 70 + 70 + 20 + 30 + 30
        plan = self.settled(needed + 1, *costs)
        assert self.told(plan) == (self.ENOUGH, True)
        assert plan.seconds["training"] == pytest.approx(needed)
        assert not self.settled(needed - 1, *costs).halving

    def test_without_a_teacher_they_share_what_is_too_little_to_compare_them(self) -> None:
        least = RUNG * FEWEST_STEPS
        assert self.told(self.settled(1.25 * least + 1, PAIRS)) == (least, True)
        assert self.told(self.settled(1.25 * least - 1, PAIRS)) == (int(1.25 * least - 1), False)
        # what comparing takes would be more than dropping one gives
        assert self.settled(400, PAIRS, student=70).halving
        assert not self.settled(400, PAIRS, student=80).halving

    def test_it_is_told(self) -> None:
        enough = f"two students, {MOST_STEPS // 4:,} steps each, the better one goes on to {MOST_STEPS:,} steps, on"
        assert enough in str(self.settled(1.5 * MOST_STEPS))

    @given(st.floats(1, 1e4), st.sampled_from([None, FASTER, PAIRS]), *[st.floats(0, 500)] * 3)
    def test_no_way_takes_more_than_there_is(
        self, left: float, second: str | None, start_up: float, resuming: float, student: float
    ) -> None:
        plan = self.settled(left, second, None, start_up, resuming, student)
        assert plan.seconds["training"] <= left + 1e-6
        assert plan.halving <= (second is not None)
        alone = self.settled(left, None, None, start_up, resuming, student)
        assert plan.trains == alone.trains


def test_a_plan_is_kept_as_it_is(tmp_path: Path) -> None:
    about = {"seed": 1}
    for number, plan in enumerate(
        [make_plan(1200, 5_000, Speeds(1 / 400, 0.01, None), on_gpu=True), TestTwoStudents().settled(2_000)]
    ):
        out = tmp_path / str(number)
        work = open_work(out)
        keep_plan(work, about, plan)
        assert find_plan(out, about) == plan
    write_sealed_json(work / "state.json", {"about": about, "plan": {**asdict(plan), "expected": {"budget": "much"}}})
    with pytest.raises(InputError, match=r"state.json: expected.budget: .* start again"):
        find_plan(out, about)
