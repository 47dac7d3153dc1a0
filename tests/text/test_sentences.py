"""Sentences of running text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.text.sentences import split_sentences


def test_sentences_end_before_capitals_but_not_after_abbreviations() -> None:
    text = 'Some sets, e.g. Integers, are big (cf. Knuth). See Fig. 2 by D. E. Smith! It says "optimal." 3 remain'
    assert list(split_sentences(text)) == [
        "Some sets, e.g. Integers, are big (cf. Knuth).",
        "See Fig. 2 by D. E. Smith!",
        'It says "optimal."',
        "3 remain",
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("No end", ["No end"]),
        ("今日は雨です。明日は晴れます。", ["今日は雨です。", "明日は晴れます。"]),
        ("Es regnet. Ärger droht.", ["Es regnet.", "Ärger droht."]),
    ],
)
def test_odd_and_other_texts(text: str, sentences: list[str]) -> None:
    assert list(split_sentences(text)) == sentences


@given(st.text())
def test_nothing_is_lost(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
