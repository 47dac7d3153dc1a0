"""The paired bootstrap: each resample against scipy, coverage and error rate on simulated data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, norm, spearmanr

from nearer.analysis import MeanPair, SpearmanPair, paired_bootstrap
from nearer.analysis import bootstrap as module
from nearer.errors import InputError, SettingError

TIED = st.lists(st.integers(0, 4), min_size=4, max_size=25)


@settings(max_examples=80, deadline=None)
@given(values=TIED, seed=st.integers(0, 1000))
def test_ranks_of_a_resample_are_those_of_its_items(values: list[int], seed: int) -> None:
    """How often each is drawn is all that is needed: scipy is given the items themselves."""
    draw = np.random.default_rng(seed)
    first, count = np.array(values, dtype=np.float64), len(values)
    gold = draw.integers(0, 3, count).astype(np.float64)
    second = draw.normal(size=count)
    if len(set(values)) < 2 or len(set(gold)) < 2:
        return
    items = draw.integers(0, count, count)
    times = np.bincount(items, minlength=count).astype(np.float64)[None]
    for found, side in zip(SpearmanPair(first, second, gold).scores(times), (first, second), strict=True):
        if len(set(side[items])) > 1 and len(set(gold[items])) > 1:
            assert found[0] == pytest.approx(100 * spearmanr(side[items], gold[items]).statistic, abs=1e-9)
        else:
            assert np.isnan(found[0])


def normals(count: int, seed: int, first: float = 0.7, second: float = 0.6, common: float = 0.85) -> SpearmanPair:
    """Two models whose errors are correlated, as those of real models are. first, second: correlations with gold."""
    draw = np.random.default_rng(seed)
    gold, shared = draw.normal(size=count), draw.normal(size=count)

    def model(correlation: float) -> np.ndarray:
        error = common * shared + math.sqrt(1 - common**2) * draw.normal(size=count)
        return correlation * gold + math.sqrt(1 - correlation**2) * error

    return SpearmanPair(model(first), model(second), gold)


def spearman_of_normals(correlation: float) -> float:
    return 100 * 6 / math.pi * math.asin(correlation / 2)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_intervals_hold_the_true_difference_as_often_as_they_say(method: str) -> None:
    """400 data sets: 95 % ± 3.3 standard errors. Models resampled apart would hold it nearly always."""
    true = spearman_of_normals(0.7) - spearman_of_normals(0.6)
    held = 0
    for seed in range(400):
        found = paired_bootstrap(normals(100, seed), resamples=400, method=method, seed=seed)  # type: ignore[arg-type]
        held += found.low <= true <= found.high
    assert 0.914 <= held / 400 <= 0.986


def test_equal_models_are_rarely_told_apart() -> None:
    """Of two models that are equally good, about 5 % are significant at 5 %, and p-values are even otherwise."""
    found = [paired_bootstrap(normals(100, seed, 0.6, 0.6), resamples=400, seed=seed) for seed in range(400)]
    values = np.array([comparison.p_value for comparison in found])
    assert 0.02 <= np.mean(values < 0.05) <= 0.09
    assert np.quantile(values, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.09)


def test_averages_over_tasks_cover_too() -> None:
    true = (spearman_of_normals(0.7) - spearman_of_normals(0.6) + 0.0) / 2
    held = 0
    for seed in range(300):
        tasks = [normals(60, 2 * seed), normals(120, 2 * seed + 1, 0.6, 0.6)]
        found = paired_bootstrap(tasks, resamples=300, seed=seed)
        held += found.low <= true <= found.high
    assert 0.905 <= held / 300 <= 0.988


def test_scipys_bca_of_means() -> None:
    """Skewed figures, where bias and acceleration matter: the same interval up to the noise of resampling."""
    draw = np.random.default_rng(0)
    first, second = draw.exponential(size=40), np.full(40, 1.0)
    ours = paired_bootstrap(MeanPair(first, second), resamples=20_000, method="bca")
    theirs = bootstrap((first - second,), np.mean, n_resamples=20_000, method="BCa", rng=1).confidence_interval
    assert (ours.low, ours.high) == (pytest.approx(theirs.low, abs=0.02), pytest.approx(theirs.high, abs=0.02))
    plain = paired_bootstrap(MeanPair(first, second), resamples=20_000)
    assert ours.low > plain.low + 0.01
    assert ours.high > plain.high + 0.03


def test_acceleration_over_several_samples_is_that_of_one_for_one() -> None:
    pair = MeanPair(np.random.default_rng(1).exponential(size=30), np.zeros(30))
    [items] = [module._without_one(pair)]
    influence = items.mean() - items
    expected = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    drawn = np.random.default_rng(0).normal(size=200)
    assert module._Shift.bca([pair], drawn, 0.0).acceleration == pytest.approx(expected)
    left_out = [np.delete(pair.first, place).mean() for place in range(30)]
    np.testing.assert_allclose(items, left_out)


def test_the_quantile_at_a_tail_and_back() -> None:
    shift = module._Shift(bias=0.3, acceleration=0.1)
    away = 0.3 + norm.ppf(0.025)
    assert shift.level(0.025) == pytest.approx(norm.cdf(0.3 + away / (1 - 0.1 * away)))
    for tail in (0.01, 0.4, 0.975):
        assert shift.tail(shift.level(tail)) == pytest.approx(tail)
        assert module._Shift().level(tail) == pytest.approx(tail)


def test_tasks_are_resampled_apart_from_each_other() -> None:
    """Twice as many pairs: an interval narrower by the root of 2, also where both tasks are of one size."""
    task = normals(100, 8)
    one, two = paired_bootstrap(task, resamples=4000), paired_bootstrap([task, task], resamples=4000)
    assert (one.high - one.low) / (two.high - two.low) == pytest.approx(math.sqrt(2), abs=0.1)


def test_scores_and_difference_are_those_of_the_whole() -> None:
    task = normals(50, 3)
    found = paired_bootstrap(task, resamples=200)
    assert found.first == pytest.approx(100 * spearmanr(task.first, task.gold).statistic)
    assert found.second == pytest.approx(100 * spearmanr(task.second, task.gold).statistic)
    assert found.difference == pytest.approx(found.first - found.second)
    other = MeanPair(np.array([1.0, 0, 1, 1]), np.array([0.0, 0, 1, 0]))
    both = paired_bootstrap([task, other], resamples=200)
    assert both.first == pytest.approx((found.first + 0.75) / 2)


def test_the_other_way_round_is_the_same_with_another_sign() -> None:
    task = normals(60, 4)
    turned = replace(task, first=task.second, second=task.first)
    one, two = paired_bootstrap(task, resamples=500), paired_bootstrap(turned, resamples=500)
    assert (one.low, one.high) == (pytest.approx(-two.high), pytest.approx(-two.low))
    assert one.p_value == pytest.approx(two.p_value)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_interval_and_p_value_agree(method: str) -> None:
    for seed in range(40):
        found = paired_bootstrap(normals(80, seed, 0.68, 0.6), resamples=1000, method=method, seed=seed)  # type: ignore[arg-type]
        if abs(found.p_value - 0.05) > 0.01:
            assert found.significant == (found.p_value < 0.05)


def test_a_seed_gives_the_same_whatever_is_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    task = normals(40, 5)
    before = paired_bootstrap(task, resamples=300, method="bca", seed=7)
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", 400)
    after = paired_bootstrap(task, resamples=300, method="bca", seed=7)
    assert (before.low, before.high, before.p_value) == pytest.approx((after.low, after.high, after.p_value))
    assert paired_bootstrap(task, resamples=300, seed=8).low != paired_bootstrap(task, resamples=300, seed=7).low


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_a_model_beside_itself(method: str) -> None:
    task = normals(30, 6)
    found = paired_bootstrap(replace(task, second=task.first), resamples=200, method=method)  # type: ignore[arg-type]
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)
    assert not found.significant


def test_resamples_without_a_score_are_counted() -> None:
    gold = np.array([0.0, 0, 0, 0, 5])  # in a third of all resamples the 5 is not drawn
    found = paired_bootstrap(SpearmanPair(np.arange(5.0), np.array([1.0, 0, 2, 3, 4]), gold), resamples=1000)
    assert found.undefined == pytest.approx(1000 * 0.8**5, abs=60)
    assert math.isfinite(found.low)
    with pytest.raises(InputError, match="a score is undefined"):
        paired_bootstrap(SpearmanPair(np.arange(2.0), np.arange(2.0), np.arange(2.0)), resamples=1000, seed=1)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (
            lambda: SpearmanPair(np.ones(3), np.arange(3.0), np.arange(3.0), "STS-B"),
            InputError,
            "STS-B: the first model",
        ),
        (lambda: SpearmanPair(np.arange(3.0), np.arange(3.0), np.ones(3)), InputError, "all gold scores are equal"),
        (
            lambda: SpearmanPair(np.arange(3.0), np.arange(2.0), np.arange(3.0)),
            InputError,
            "2 second similarities for 3",
        ),
        (lambda: SpearmanPair(np.arange(3.0) * np.nan, np.arange(3.0), np.arange(3.0)), InputError, "not finite"),
        (lambda: MeanPair(np.ones(1), np.ones(1)), InputError, "1 and 1 figures"),
        (lambda: MeanPair(np.ones(3), np.array([1, np.nan, 1])), InputError, "some figures are not finite"),
        (lambda: paired_bootstrap([]), InputError, "no tasks given"),
        (lambda: paired_bootstrap(normals(20, 0), resamples=50), SettingError, "resamples: 50"),
        (lambda: paired_bootstrap(normals(20, 0), confidence=95), SettingError, "confidence: 95"),
        (lambda: paired_bootstrap(normals(20, 0), method="basic"), SettingError, "'basic' is not one of"),
    ],
)
def test_what_cannot_be_compared(call: object, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told) as caught:
        call()  # type: ignore[operator]
    assert "\n" not in str(caught.value)
