"""Pairs in which one side contains the other are counted, or mended."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.text.faults import Fault
from nearer.text.reading import read_pairs
from nearer.text.records import Pair, contains_the_other, without_the_other


@pytest.mark.parametrize(
    ("first", "second", "contained"),
    [
        ("Heat in wings", "heat in wings . The wing gets hot.", True),
        ("The wing gets hot, as heat in wings does.", "Heat in Wings", True),  # whichever side is longer
        ("heat wings", "heat in wings", False),  # a gap
        ("heat in", "heat inside", False),  # words, not letters
        ("rain", "rain falls", False),  # one word says little
        ("same words", "Same words!", True),
        ("", "", False),
    ],
)
def test_what_counts(first: str, second: str, contained: bool) -> None:
    assert contains_the_other(Pair(first, second)) is contained


@pytest.mark.parametrize(
    ("pair", "stripped"),
    [
        (Pair("Heat in wings", "heat in wings . The wing gets hot."), Pair("Heat in wings", "The wing gets hot.")),
        (Pair("Hot, they say: heat in wings", "heat in wings"), Pair("Hot, they say:", "heat in wings")),
        (Pair("a b", "x a b - y a b", 2.0), Pair("a b", "x y a b", 2.0)),  # the first place alone
        (Pair("same words", "Same words!"), None),
    ],
)
def test_the_longer_side_loses_it(pair: Pair, stripped: Pair | None) -> None:
    assert without_the_other(pair) == stripped


words = st.lists(st.sampled_from(["heat", "wing", "Flow", "über", "x1"]), min_size=2, max_size=5)


@given(title=words, before=st.lists(st.sampled_from(["one", "two"]), max_size=3), after=words)
def test_what_is_left_are_the_other_words(title: list[str], before: list[str], after: list[str]) -> None:
    pair = Pair(" ".join(title), " ".join([*before, *title]) + ". " + " ".join(after))
    assert contains_the_other(pair)
    stripped = without_the_other(pair)
    assert stripped is not None
    assert stripped.first == pair.first
    assert stripped.second.split() == [*before, *after]


class TestReading:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "pairs.tsv"
        path.write_text("heat in wings\theat in wings. It is hot.\nrain\tit pours\nall the same\tAll the same.\n")
        return path

    def test_they_are_counted_and_kept(self, file: Path) -> None:
        reading = read_pairs(file)
        assert [pair.second for pair in reading] == ["heat in wings. It is hot.", "it pours", "All the same."]
        assert reading.report.count(Fault.CONTAINED) == 2
        assert "2 in which one side contains the other (kept; cut it out with strip_contained" in str(reading.report)

    def test_they_are_stripped_when_asked(self, file: Path) -> None:
        reading = read_pairs(file, strip_contained=True)
        assert [pair.second for pair in reading] == ["It is hot.", "it pours"]
        assert (reading.report.count(Fault.STRIPPED), reading.report.count(Fault.WRONG_FIELDS)) == (1, 1)
        assert reading.report.read == reading.report.kept + reading.report.dropped == 3

    def test_other_records_other_digest(self, file: Path) -> None:
        assert read_pairs(file).fingerprint() != read_pairs(file, strip_contained=True).fingerprint()
        assert read_pairs(file).fingerprint() == read_pairs(file, allow_dropped=True).fingerprint()

    def test_scored_pairs_are_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "scored.tsv"
        path.write_text("a man eats\ta man eats bread\t4.2\n")
        reading = read_pairs(path, strip_contained=True)
        assert [pair.second for pair in reading] == ["a man eats bread"]
        assert not reading.report.tallies
