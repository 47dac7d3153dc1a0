"""Figures in words, and axes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.report.chart import linear, logarithmic, named
from nearer.report.markup import count, duration, figure, listed, short, signed


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (figure(75.126), "75.13"),
        (figure(-0.001), "0.00"),
        (figure(-1.5), "\u22121.50"),
        (figure(None), "–"),
        (figure(math.nan), "–"),
        (signed(0.7), "+0.70"),
        (signed(-0.7), "\u22120.70"),
        (signed(0.001), "0.00"),
        (count(1, "step"), "1 step"),
        (count(6400, "step"), "6,400 steps"),
        (short(0.05), "0.05"),
        (short(3e-5), "3e\u22125"),
        (short(15_600), "15.6k"),
        (short(2_000_000), "2M"),
        (short(0), "0"),
        (duration(4.25), "4.2 s"),
        (duration(41), "41 s"),
        (duration(306), "5 min 6 s"),
        (duration(7200), "2 h"),
        (duration(7800), "2 h 10 min"),
        (listed(["a"]), "a"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (listed([]), ""),
    ],
)
def test_as_people_write_them(shown: str, wanted: str) -> None:
    assert shown == wanted


numbers = st.floats(-1e9, 1e9, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=5), st.booleans())
def test_an_axis_holds_its_values_and_a_few_ticks(values: list[float], whole: bool) -> None:
    axis = linear("x", values, whole=whole)
    assert axis.low < axis.high
    assert all(-1e-6 <= axis.share(value) <= 1 + 1e-6 for value in values)
    assert 1 <= len(axis.ticks) <= 8
    assert all(-1e-6 <= axis.share(tick) <= 1 + 1e-6 for tick, _ in axis.ticks)
    assert len({label for _, label in axis.ticks}) == len(axis.ticks)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 100], "0 20 40 60 80 100"),
        ([0.31, 0.52], "0.30 0.35 0.40 0.45 0.50 0.55"),
        ([49.93, 49.94], "49.930 49.932 49.934 49.936 49.938 49.940"),
        ([-2.8, -1.8], "−2.8 −2.6 −2.4 −2.2 −2.0 −1.8"),
        ([0, 3e-5], "0 1e−5 2e−5 3e−5"),
        ([0, 15_625], "0 5k 10k 15k 20k"),
        ([2_000_000, 3_000_000], "2.0M 2.2M 2.4M 2.6M 2.8M 3.0M"),
        ([5, 5], "4.4 4.6 4.8 5.0 5.2 5.4 5.6"),
        ([0, 0], "−0.6 −0.4 −0.2 0 0.2 0.4 0.6"),
    ],
)
def test_ticks_are_round_and_told_apart(values: list[float], labels: str) -> None:
    assert " ".join(label for _, label in linear("x", values, whole=True).ticks) == labels


def test_next_to_nothing_looks_like_it() -> None:
    axis = linear("x", [0.5, 0.501], least=0.1)
    assert axis.high - axis.low == pytest.approx(0.1)


@given(st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=5))
def test_powers_of_ten(values: list[float]) -> None:
    axis = logarithmic("x", values)
    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value in values)
    assert 2 <= len(axis.ticks) <= 7
    assert axis.share(math.sqrt(axis.low * axis.high)) == pytest.approx(0.5)


def test_places_with_names() -> None:
    axis = named("x", ["a", "b"])
    assert [axis.share(tick) for tick, _ in axis.ticks] == [0.25, 0.75]
