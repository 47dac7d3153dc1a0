"""Edit distances and shared words, against the textbook's table of distances."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer import extras
from nearer.analysis.words import words
from nearer.construct.propensity import check_edit_level, edit_distances, overlaps
from nearer.errors import MissingExtraError, SettingError

SENTENCE = st.text("ab c東.", max_size=9)


def by_hand(first: Sequence[str], second: Sequence[str]) -> float:
    """Wagner and Fischer's table, divided by the longer length."""
    table = [
        [max(row, column) if 0 in (row, column) else 0 for column in range(len(second) + 1)]
        for row in range(len(first) + 1)
    ]
    for row in range(1, len(first) + 1):
        for column in range(1, len(second) + 1):
            replaced = table[row - 1][column - 1] + (first[row - 1] != second[column - 1])
            table[row][column] = min(table[row - 1][column] + 1, table[row][column - 1] + 1, replaced)
    longer = max(len(first), len(second))
    return table[-1][-1] / longer if longer else 0.0


@given(
    st.lists(st.tuples(SENTENCE, st.lists(SENTENCE, max_size=3)), max_size=4), st.sampled_from(["characters", "words"])
)
def test_distances_are_the_textbook_s(rows: list[tuple[str, list[str]]], level: str) -> None:
    found = edit_distances([anchor for anchor, _ in rows], [others for _, others in rows], level)  # type: ignore[arg-type]
    assert found.shape == (len(rows), max((len(others) for _, others in rows), default=0))
    cut = words if level == "words" else list
    for place, (anchor, others) in enumerate(rows):
        wanted = [by_hand(cut(anchor), cut(other)) for other in others]
        np.testing.assert_allclose(found[place, : len(others)], wanted, atol=1e-12)
        assert not found[place, len(others) :].any()


def test_words_are_whole_and_case_and_punctuation_do_not_count() -> None:
    anchors, others = ["A man is eating lunch."], [["a MAN is eating, dinner", "lunch"]]
    assert edit_distances(anchors, others, "words").tolist() == [[0.2, 0.8]]


def test_shared_words_are_a_share_of_the_longer_sentence() -> None:
    assert overlaps("The fox sees the dog", ["the dog", "The fox sees the dog!", "rain", "the the the fox"]) == [
        0.4,
        1.0,
        0.0,
        0.6,
    ]


def test_an_unknown_level() -> None:
    with pytest.raises(SettingError, match="'letters' is not one of characters, words"):
        check_edit_level("letters")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        if name == "rapidfuzz":
            raise ImportError(name)
        return import_module(name)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[construct\]'"):
        check_edit_level("words")
