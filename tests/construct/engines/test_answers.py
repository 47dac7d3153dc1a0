"""Where a sentence ends."""

from __future__ import annotations

import numpy as np
import pytest

from nearer.construct.engines.decoding import Answers, TokenTexts
from nearer.construct.requests import Generated, Request

TEXTS = ["", "a", " b", "\n", ".\n", "\nc", " ", "d\u2028e"]
END = 0


def generate(tokens: list[int], *, limit: int = 9, one_line: bool = True) -> Generated:
    places = Answers(2, TokenTexts(TEXTS, [END]), lambda ids: "".join(TEXTS[token] for token in ids))
    places.begin(1, Request(0, 1, "", one_line=one_line), np.zeros(limit))
    for token in tokens:
        if len(places.take(np.array([1]), np.array([token]))):
            break
    else:
        raise AssertionError("has not ended")
    return places.finish(1)


@pytest.mark.parametrize(
    ("tokens", "text", "taken", "ended"),
    [
        ([1, 2, END, 1], "a b", 3, "model"),
        ([END], "", 1, "model"),
        ([1, 3, 1], "a", 2, "model"),  # a line break behind text
        ([3, 6, 3, 1, 3], "a", 5, "model"),  # line breaks in front of it do not count
        ([1, 4, 1], "a.", 2, "model"),  # text and break in one token
        ([4], ".", 1, "model"),
        ([5, 2, 3], "c b", 3, "model"),  # the break in front, the text behind it
        ([1, 5], "a", 2, "model"),
        ([7], "d", 1, "model"),  # other line breaks too
        ([3, 3, END], "", 3, "model"),
        ([1] * 9, "a" * 9, 9, "limit"),
        ([1] * 8 + [END], "a" * 8, 9, "model"),
    ],
)
def test_one_line(tokens: list[int], text: str, taken: int, ended: str) -> None:
    given = generate(tokens)
    assert (given.text, given.tokens, given.ended) == (text, taken, ended)


def test_several_lines_if_wanted() -> None:
    given = generate([1, 3, 2, 4, 1, END], one_line=False)
    assert (given.text, given.tokens, given.ended) == ("a\n b.\na", 6, "model")


def test_places_do_not_mix() -> None:
    places = Answers(3, TokenTexts(TEXTS, [END]), lambda ids: "".join(TEXTS[token] for token in ids))
    for place, limit in ((0, 2), (2, 300)):
        places.begin(place, Request(place, 1, ""), np.arange(limit) / limit)
    assert places.free() == [1]
    both = np.array([0, 2])
    assert places.take(both, np.array([1, 2])).tolist() == []
    assert places.draws(both).tolist() == [0.5, 1 / 300]
    assert places.take(both, np.array([1, END])).tolist() == [0, 2]
    assert [(places.finish(place).text, place) for place in (2, 0)] == [("b", 2), ("aa", 0)]
    assert places.free() == [0, 1, 2]
