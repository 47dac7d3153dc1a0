"""Batches: every record once an epoch, the same from any step on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.errors import InputError, SettingError
from nearer.text.batches import BatchPlan, Topics

plans = st.tuples(st.integers(2, 60), st.integers(2, 9), st.integers(0, 50), st.booleans(), st.integers(0, 4))


def make(records: int, size: int, seed: int, partial: bool, group: int) -> BatchPlan:
    lengths = np.random.default_rng(1).integers(3, 33, records)
    return BatchPlan(lengths, size, seed, keep_partial=partial, group_by_length=group)


@settings(max_examples=100, deadline=None)
@given(plans)
def test_an_epoch_has_every_record_once(plan: tuple[int, int, int, bool, int]) -> None:
    records, size, _, partial, _ = plan
    if records < size and not (partial and records > 1):
        with pytest.raises(InputError, match="do not make one batch"):
            make(*plan)
        return
    batches = make(*plan)
    for epoch in range(2):
        steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
        drawn = np.concatenate([batches.batch(step) for step in steps])
        assert len(set(drawn.tolist())) == len(drawn)
        left_out = records % size if not partial or records % size == 1 else 0
        assert len(drawn) == records - left_out
        assert all(len(batches.batch(step)) == size for step in steps[:-1])


@settings(max_examples=50, deadline=None)
@given(plans, st.integers(0, 40))
def test_any_step_can_be_asked_for_first(plan: tuple[int, int, int, bool, int], step: int) -> None:
    if plan[0] < plan[1]:
        return
    walked, jumped = make(*plan), make(*plan)
    for before in range(step):
        walked.batch(before)
    np.testing.assert_array_equal(walked.batch(step), jumped.batch(step))


@settings(max_examples=50, deadline=None)
@given(plans, st.integers(0, 40))
def test_which_records_a_run_sees(plan: tuple[int, int, int, bool, int], batches: int) -> None:
    if plan[0] < plan[1]:
        return
    made = make(*plan)
    seen = made.seen(batches)
    if batches >= made.steps_per_epoch:
        assert seen is None
        return
    assert seen is not None
    drawn = {int(record) for step in range(batches) for record in made.batch(step)}
    assert set(np.flatnonzero(seen).tolist()) == drawn


def test_seeds_and_epochs_draw_other_orders() -> None:
    first, other = make(60, 6, 0, True, 0), make(60, 6, 1, True, 0)
    assert first.batch(0).tolist() != other.batch(0).tolist()
    assert first.batch(0).tolist() != first.batch(10).tolist()


def test_grouping_by_length_narrows_the_lengths_of_a_batch() -> None:
    def spread(group: int) -> float:
        plan = make(600, 10, 0, True, group)
        return float(np.mean([np.ptp(plan.lengths[plan.batch(step)]) for step in range(60)]))

    assert spread(30) < spread(0) / 5


@settings(max_examples=100, deadline=None)
@given(plans)
def test_totals_are_sums_over_whole_batches(plan: tuple[int, int, int, bool, int]) -> None:
    records, size, *_ = plan
    if records < size:
        return
    batches = make(*plan)
    values = np.random.default_rng(2).integers(0, 1000, records)
    expected = [sum(values[record] for record in batches.batch(step)) for step in range(records // size)]
    assert batches.totals(values).tolist() == expected


@pytest.mark.parametrize("group", [0, 3])
def test_the_total_of_an_only_smaller_batch(group: int) -> None:
    assert make(5, 8, 0, True, group).totals(np.array([1, 2, 30, 4, 5])).tolist() == [42]


@pytest.mark.parametrize(("size", "group", "message"), [(1, 0, "batch_size: 1"), (4, -1, "group_by_length: -1")])
def test_wrong_settings_are_named(size: int, group: int, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make(20, size, 0, True, group)


def test_a_record_alone_makes_a_batch_where_it_may() -> None:
    lengths = np.arange(3, 10)
    assert BatchPlan(lengths, 1, 0, fewest=1).steps_per_epoch == 7
    assert [len(BatchPlan(lengths, 3, 0, fewest=1).batch(step)) for step in range(3)] == [3, 3, 1]
    assert BatchPlan(lengths, 3, 0).steps_per_epoch == 2
    with pytest.raises(SettingError, match="batch_size: 2 is too small; 3 at least"):
        BatchPlan(lengths, 2, 0, fewest=3)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.integers(2, 12), st.integers(0, 50))
def test_topics_order_has_every_record_once(records: int, size: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).standard_normal((records, 5))
    vectors[: records // 2] = vectors[0]  # many that are the same
    order = Topics(vectors, size).order(np.random.default_rng(seed))
    assert sorted(order.tolist()) == list(range(records))


def test_groups_are_of_one_topic_and_differ_between_epochs() -> None:
    random = np.random.default_rng(0)
    middles = random.standard_normal((10, 40))
    topic = np.repeat(np.arange(10), 16)  # two groups each
    vectors = middles[topic] + 0.1 * random.standard_normal((160, 40))
    plan = BatchPlan(np.full(160, 5), 8, 0, topics=Topics(vectors, 8))
    assert plan.steps_per_epoch == 20
    pure = [len(set(topic[plan.batch(step)].tolist())) == 1 for step in range(20)]
    assert sum(pure) >= 14  # halving may cut through a topic
    at_random = BatchPlan(np.full(160, 5), 8, 0)
    assert not any(len(set(topic[at_random.batch(step)].tolist())) == 1 for step in range(20))
    assert {frozenset(plan.batch(step).tolist()) for step in range(20)} != {
        frozenset(plan.batch(step).tolist()) for step in range(20, 40)
    }


def test_records_that_fill_no_group_come_last() -> None:
    vectors = np.random.default_rng(0).standard_normal((23, 4))
    plan = BatchPlan(np.full(23, 5), 10, 0, topics=Topics(vectors, 5))
    assert [len(plan.batch(step)) for step in range(plan.steps_per_epoch)] == [10, 10, 3]


def test_topics_refuse_what_contradicts_them() -> None:
    vectors = np.zeros((20, 4))
    with pytest.raises(SettingError, match="topic_size: 1 is below 2"):
        Topics(vectors, 1)
    with pytest.raises(SettingError, match="group_by_length: must be 0 with topic_size"):
        BatchPlan(np.full(20, 5), 10, 0, topics=Topics(vectors, 5), group_by_length=4)
