"""Example searches with two encoders."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from nearer.demo.run import compare_searches, search, searches_table
from nearer.errors import SettingError


class Lengths:
    """Nearness is likeness in length, times a sign."""

    def __init__(self, sign: int = 1) -> None:
        self.sign = sign

    def encode(self, sentences: Sequence[str], *, batch_size: int, progress: bool) -> NDArray[np.float32]:
        angles = np.array([len(sentence) / 20 for sentence in sentences])
        vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        if self.sign < 0:
            vectors[1:] *= -1
        return vectors.astype(np.float32)


SENTENCES = ["aaaa", "[aaaaaa]", "aa", "bb"]


def test_the_nearest_come_first_and_equals_keep_their_order() -> None:
    [found] = search(Lengths(), ["xx"], SENTENCES, top=3)
    assert [ranked.place for ranked in found] == [2, 3, 0]
    assert found[0].score == pytest.approx(1)


def test_both_encoders_are_shown_with_brackets_as_they_are() -> None:
    searches = compare_searches(Lengths(), Lengths(-1), SENTENCES, queries=["xx"], top=1)
    assert searches[0].before[0].sentence == "aa"
    assert searches[0].after[0].sentence == "[aaaaaa]"
    page = io.StringIO()
    Console(file=page, width=100).print(searches_table(searches))
    for shown in ("xx", "1.00  aa", "[aaaaaa]", "before training", "after training"):
        assert shown in page.getvalue()


def test_nothing_to_search_finds_nothing() -> None:
    assert search(Lengths(), ["x"], [], top=1) == [[]]
    with pytest.raises(SettingError, match="top: 0"):
        search(Lengths(), ["x"], SENTENCES, top=0)
