"""The tournament against slow plain versions, and the rule by which a set-up is chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.adaptation.tournament import (
    JUDGED,
    NEARLY,
    OTHER_WORDS,
    Candidates,
    Contender,
    Standing,
    all_contenders,
    best_fusion,
    choose,
    hold_tournament,
    is_far_below,
    weigh_tests,
)
from nearer.evaluation.measures import ndcg

BASE = Contender("base")


def make_candidates(seed: int, queries: int = 12, most: int = 15, **better: float) -> Candidates:
    """Judges who score at random, the right answer higher by what `better` says of them."""
    random = np.random.default_rng(seed)
    numbers = np.array([random.permutation(100)[:most] for _ in range(queries)])
    answers = numbers[:, 3].copy()
    answers[0] = 500  # which nobody found
    numbers[:, -2:] = np.where(random.random((queries, 2)) < 0.5, -1, numbers[:, -2:])
    scores = {}
    for judge in ("base", "student", "lexical", "reranker"):
        scores[judge] = random.normal(size=numbers.shape).astype(np.float32)
        scores[judge][:, 3] += better.get(judge, 0.0)
    return Candidates(numbers, answers, scores)


@given(st.integers(0, 10_000), st.floats(0, 2), st.floats(0, 2))
def test_ndcg_is_that_of_the_plain_measure(seed: int, lexical: float, reranker: float) -> None:
    found = make_candidates(seed)
    weights = {"base": 1.0, "lexical": lexical, "reranker": reranker}
    for row, value in enumerate(found.ndcg(weights)):
        there = np.flatnonzero(found.numbers[row] >= 0)
        fused = np.zeros(len(there))
        for judge, weight in weights.items():
            own = found.scores[judge][row, there].astype(np.float64)
            fused += weight * (own - own.mean()) / max(own.std(), 1e-6)
        order = there[np.argsort(-fused, kind="stable")]
        gains = (found.numbers[row, order] == found.answers[row]).astype(np.float64)
        wanted = ndcg(gains, ideal=np.ones(1), cut=10) if gains.any() else 0.0
        assert value == pytest.approx(wanted, abs=1e-9)
        rank = gains.tolist().index(1) + 1 if gains.any() else 0
        assert found.ranks(weights)[row] == rank


def test_one_that_is_always_right_wins() -> None:
    tests = {f"test {seed}": make_candidates(seed, 40, student=20.0) for seed in range(3)}
    standings = hold_tournament(tests, all_contenders(["base", "student"], reranker=True), BASE)
    assert len(standings) == 2 * 4 * 3
    assert [standing.gain for standing in standings] == sorted((s.gain for s in standings), reverse=True)
    chosen = choose(standings, BASE)
    assert chosen.contender == Contender("student")
    assert chosen.low > 0
    assert chosen.by_test["test 0"] == pytest.approx(100 * 39 / 40)
    of_base = next(standing for standing in standings if standing.contender == BASE)
    assert (of_base.gain, of_base.low, of_base.high) == (0, 0, 0)


def test_noise_is_no_gain() -> None:
    tests = {f"test {seed}": make_candidates(seed, 40) for seed in range(3)}
    standings = hold_tournament(tests, [BASE, Contender("student")], BASE)
    assert choose(standings, BASE).contender == BASE


def standing(contender: Contender, gain: float, low: float) -> Standing:
    return Standing(contender, gain, low, gain + 1, {})


def test_of_those_that_are_nearly_as_good_the_cheapest_is_chosen() -> None:
    base = standing(BASE, 0.0, 0.0)
    full = standing(Contender("student", 1.0, 1.0), 5.0, 4.0)
    hybrid = standing(Contender("student", 1.0), 5.0 - NEARLY + 0.1, 3.0)
    alone = standing(Contender("student"), 5.0 - NEARLY - 0.1, 3.0)
    assert choose([full, hybrid, alone, base], BASE) == hybrid
    assert choose([full, alone, base], BASE) == full
    uncertain = standing(Contender("student", 0.3), 9.0, -0.1)
    assert choose([uncertain, base], BASE) == base


def test_a_teacher_costs_more_than_words_and_less_than_a_reranker() -> None:
    base = standing(BASE, 0.0, 0.0)
    reranked, teacher = standing(Contender("base", 0.0, 1.0), 5.0, 4.0), Contender("teacher", teacher=True)
    assert choose([reranked, standing(teacher, 4.9, 4.0), base], BASE).contender == teacher
    hybrid = standing(Contender("student", 1.0), 4.9, 4.0)
    assert choose([reranked, standing(teacher, 5.0, 4.0), hybrid, base], BASE) == hybrid
    assert choose([reranked, standing(teacher, 6.0, 4.0), hybrid, base], BASE).contender == teacher


def test_judges_are_trusted_by_what_they_know() -> None:
    tests = {f"test {seed}": make_candidates(seed, 40, reranker=20.0, lexical=-20.0) for seed in range(3)}
    weights, above = best_fusion(tests, ["base", "lexical", "reranker"], "base")
    assert weights == {"reranker": 1.0}
    assert above > 30
    nobody = {name: make_candidates(seed, 40, base=20.0) for seed, name in enumerate("abc")}
    weights, above = best_fusion(nobody, ["base", "lexical", "reranker"], "base")
    assert weights == {"base": 1.0}
    assert math.isclose(above, 0.0)


def test_a_base_is_far_below_its_best_teacher() -> None:
    tests = {name: make_candidates(seed, 40, base=0.2, student=6.0) for seed, name in enumerate("ab")}
    weights = {"a": 0.75, "b": 0.25}
    alone = {name: [float(tests[test].ndcg({name: 1.0}).mean()) for test in "ab"] for name in ("base", "student")}
    weighed = {name: 0.75 * first + 0.25 * second for name, (first, second) in alone.items()}
    assert 0 < 2 * weighed["base"] < weighed["student"]
    assert is_far_below(tests, "base", ["lexical", "student"], weights)
    assert not is_far_below(tests, "student", ["base", "lexical"], weights)
    assert not is_far_below(tests, "base", [], weights)
    near = {name: make_candidates(seed, 40, base=2.0, student=3.0) for seed, name in enumerate("ab")}
    assert not is_far_below(near, "base", ["student"], weights)


def test_a_point_counts_by_how_far_set_ups_lie_apart() -> None:
    tests = {
        "easy": make_candidates(1, 60, lexical=3.0),  # BM25 moves much
        "hard": make_candidates(2, 60),
        f"easy {JUDGED}": make_candidates(3, 60),
    }
    weights = weigh_tests(tests, BASE, reranker=True)
    assert sum(weights.values()) == pytest.approx(1)
    assert weights[f"easy {JUDGED}"] == pytest.approx(0.5)
    # beside a plain version
    spreads = {}
    for name in ("easy", "hard"):
        of_base = tests[name].ndcg(BASE.weights)
        gains = [tests[name].ndcg(each.weights) - of_base for each in all_contenders(["base"], reranker=True)]
        apart = np.std([gain.mean() for gain in gains])
        chance = math.sqrt(np.mean([gain.var() / 60 for gain in gains[1:]]))
        spreads[name] = max(apart, chance)
    assert spreads["easy"] > spreads["hard"]
    assert weights["hard"] / weights["easy"] == pytest.approx(math.sqrt(spreads["easy"] / spreads["hard"]))
    # who takes part besides changes nothing
    del tests[f"easy {JUDGED}"]
    assert weigh_tests(tests, BASE, reranker=True)["hard"] == pytest.approx(2 * weights["hard"])


def test_a_kind_of_which_the_text_has_few_counts_less() -> None:
    found = make_candidates(1, 40)
    twice = Candidates(
        np.tile(found.numbers, (2, 1)),
        np.tile(found.answers, 2),
        {name: np.tile(of, (2, 1)) for name, of in found.scores.items()},
    )  # the same set-ups lie as far apart
    apart = weigh_tests({"a": found, "b": found}, BASE, reranker=True)
    assert apart == {"a": 0.5, "b": 0.5}
    weights = weigh_tests({"a": found, "b": twice}, BASE, reranker=True)
    assert 2 * weights["a"] == pytest.approx(weights["b"], rel=0.2)  # a mean of more is a little more certain
    # a kind's test in other words has fewer queries by nature, and counts as the kind does
    tests = {"a": twice, f"a {OTHER_WORDS}": found, "b": twice, f"b {OTHER_WORDS}": twice}
    weights = weigh_tests(tests, BASE, reranker=True)
    assert weights["a"] == weights["b"]
    assert weights[f"a {OTHER_WORDS}"] == pytest.approx(weights[f"b {OTHER_WORDS}"], rel=0.2)
    judged = weigh_tests({**tests, f"a {JUDGED}": found, f"b {JUDGED}": twice}, BASE, reranker=True)
    assert judged[f"a {JUDGED}"] < judged[f"b {JUDGED}"]
    assert judged["a"] == judged["b"]


def test_a_test_in_which_all_are_alike_says_nothing() -> None:
    found = make_candidates(1, 40)
    nobody = Candidates(found.numbers, np.full(40, 999), found.scores)
    assert weigh_tests({"a": found, "b": nobody}, BASE, reranker=True) == {"a": 1.0, "b": 0.0}
    assert weigh_tests({"a": nobody, "b": nobody}, BASE, reranker=True) == {"a": 0.5, "b": 0.5}
    standings = hold_tournament(
        {"a": found, "b": nobody}, [BASE, Contender("student")], BASE, weights={"a": 1.0, "b": 0.0}
    )
    alone = hold_tournament({"a": found}, [BASE, Contender("student")], BASE)
    assert [standing.gain for standing in standings] == [standing.gain for standing in alone]


@given(st.floats(0, 1), st.integers(0, 100))
def test_a_gain_is_the_weighted_mean(share: float, seed: int) -> None:
    tests = {"a": make_candidates(seed), "b": make_candidates(seed + 1)}
    weights = {"a": share, "b": 1 - share}
    for each in hold_tournament(tests, [BASE, Contender("student")], BASE, weights=weights):
        gains = {
            name: (100 * (test.ndcg(each.contender.weights) - test.ndcg(BASE.weights))).mean()
            for name, test in tests.items()
        }
        assert each.gain == pytest.approx(share * gains["a"] + (1 - share) * gains["b"], abs=1e-9)


def test_what_known_answers_refute_is_not_chosen() -> None:
    tests = {"known": make_candidates(1, 60, base=4.0), f"known {JUDGED}": make_candidates(2, 60, student=20.0)}
    weights = {"known": 0.2, f"known {JUDGED}": 0.8}
    standings = hold_tournament(tests, [BASE, Contender("student")], BASE, weights=weights)
    student = next(standing for standing in standings if standing.contender != BASE)
    assert student.low > 0
    assert student.refuted
    assert choose(standings, BASE).contender == BASE


def test_what_judges_put_first() -> None:
    found = make_candidates(5)
    best = found.best({"base": 1.0})
    for row, number in enumerate(best.tolist()):
        there = found.numbers[row] >= 0
        assert number == found.numbers[row][there][found.scores["base"][row][there].argmax()]
    assert (Candidates(found.numbers, best, found.scores).ranks({"base": 1.0}) == 1).all()
