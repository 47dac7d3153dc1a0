"""Sentences of running text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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


CASES = Path(__file__).with_name("sentence_cases.txt").read_text(encoding="utf-8")


def cases() -> Iterator[tuple[str, list[str]]]:
    """Group and sentences of each text that has been cut by hand."""
    group = ""
    for block in CASES.split("\n\n"):
        lines = block.strip().splitlines()
        for line in lines:
            if line.startswith("# "):
                group = line[2:]
        if sentences := [line for line in lines if not line.startswith("# ")]:
            yield group, sentences


def test_texts_that_were_cut_by_hand() -> None:
    """Not all of them can be had by rules. What is right stays right."""
    wrong = []
    for group, sentences in cases():
        text = ("" if group.endswith(("chinese", "japanese")) else " ").join(sentences)
        if list(split_sentences(text)) != sentences:
            wrong.append(text[:24])
    assert wrong == [
        "The bank said no. so i w",
        "Er wohnt in der Goethest",
        "We compared A. thaliana ",
        "Options include: 1) rent",
        "他问：“你去哪儿？”我没有回答。价格是3.5元。",
    ]


def test_lines_are_wrapped_prose_but_for_items_and_empty_lines() -> None:
    text = "It is wrapped\nprose. Then:\n- one item\n- another one\n\nA heading\n\nThe end."
    assert list(split_sentences(text)) == [
        "It is wrapped\nprose.",
        "Then:",
        "- one item",
        "- another one",
        "A heading",
        "The end.",
    ]


@pytest.mark.parametrize("piece", [". ", ".", "!?", " ", "\n", "\n ", "a. b", "。", "“", "1. ", ": 1) x", '."'])
def test_long_runs_take_no_square_of_time(piece: str) -> None:
    assert "".join("".join(split_sentences(piece * 60_000)).split()) == "".join((piece * 60_000).split())
