"""Draws of sentences: uniform, each kind once, the same wherever and whenever they are drawn."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from nearer.teachers.rank_vectors import sample_indices, sample_sentences

texts = st.lists(st.sampled_from([f"sentence {number}" for number in range(30)]), max_size=80)


@given(texts, st.integers(1, 20), st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_those_with_the_smallest_draws(sentences: list[str], size: int, seed: int) -> None:
    """Against the obvious way, which keeps all different sentences and draws for each of them."""
    different = list(dict.fromkeys(sentences))
    draws = np.random.default_rng(seed).random(len(different))
    wanted = [different[place] for place in sorted(np.argsort(draws)[:size])]
    assert sample_sentences(iter(sentences), size, seed) == wanted


@given(texts, st.integers(0, 1000))
def test_a_text_that_is_no_larger_comes_whole_and_each_kind_once(sentences: list[str], seed: int) -> None:
    different = list(dict.fromkeys(sentences))
    for size in (max(1, len(different)), len(different) + 1, 10_000):
        assert sample_sentences(sentences, size, seed) == different


def test_all_sentences_are_drawn_alike_wherever_they_stand_and_however_often() -> None:
    text = [f"sentence {number}" for number in range(20)]
    text += ["sentence 3", "sentence 19"] * 40
    rounds, size = 2000, 5
    drawn = Counter(sentence for seed in range(rounds) for sentence in sample_sentences(text, size, seed))
    assert len(drawn) == 20
    assert sum(drawn.values()) == rounds * size
    # without replacement the counts vary less than those of a chi-squared test: it only errs on the safe side
    assert chisquare(list(drawn.values())).pvalue > 0.001


def test_another_seed_draws_others() -> None:
    text = [f"sentence {number}" for number in range(1000)]
    first, second = (set(sample_sentences(text, 100, seed)) for seed in (0, 1))
    assert len(first & second) < 30  # 10 by chance


def test_a_long_text_is_not_held() -> None:
    """Of a million sentences only a few are kept at any time."""
    alive = 0

    class Counted(str):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    most = 0

    def text() -> Iterator[str]:
        nonlocal alive, most
        for number in range(5000):
            alive += 1
            most = max(most, alive)
            yield Counted(f"sentence {number}")

    assert len(sample_sentences(text(), 10, seed=0)) == 10
    assert most <= 25


def test_the_same_in_processes_with_other_hashes() -> None:
    """Python's hash() of a text differs from process to process."""
    file = importlib.import_module("nearer.teachers.rank_vectors").__file__
    code = (
        "import runpy, sys; draw = runpy.run_path(sys.argv[1])['sample_sentences'];"
        "print(draw([f'sentence {n % 300}' for n in range(2000)], 8, 3), hash('sentence'))"
    )
    outputs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", code, str(file)], capture_output=True, text=True, env=environment, check=True
        )
        outputs.append(done.stdout.strip().rsplit(" ", 1))
    (first, one_hash), (second, other_hash) = outputs
    assert one_hash != other_hash
    here = sample_sentences([f"sentence {number % 300}" for number in range(2000)], 8, 3)
    assert first == second == str(here)


class TestPlaces:
    @given(st.lists(st.integers(0, 10_000), unique=True, max_size=60), st.integers(0, 60), st.integers(0, 1000))
    @settings(max_examples=100, deadline=None)
    def test_so_many_of_them_rising(self, places: list[int], size: int, seed: int) -> None:
        found = sample_indices(np.array(places, dtype=np.int64), size, seed).tolist()
        assert found == sorted(set(found))
        assert set(found) <= set(places)
        assert len(found) == min(size, len(places))

    @pytest.mark.parametrize("size", [7, 20])
    def test_their_order_does_not_matter_and_the_seed_does(self, size: int) -> None:
        places = np.arange(100, 120)
        found = sample_indices(places, size, 5)
        np.testing.assert_array_equal(sample_indices(places[::-1], size, 5), found)
        assert (sample_indices(places, size, 6).tolist() == found.tolist()) == (size == 20)

    def test_all_are_drawn_alike(self) -> None:
        drawn = Counter(place for seed in range(2000) for place in sample_indices(np.arange(20), 5, seed).tolist())
        assert len(drawn) == 20
        assert chisquare(list(drawn.values())).pvalue > 0.001
