"""Batches by token budget, and token ids in one array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.encoder.batching import Tokenised, cut, longest_first

LENGTHS = st.lists(st.integers(0, 60), max_size=80)


def cut_by_hand(widths: list[int], tokens: int, rows: int | None) -> list[int]:
    """One sentence after another into the batch, until one does not fit."""
    batches: list[list[int]] = []
    for width in widths:
        batch = batches[-1] if batches else None
        fits = batch and (len(batch) + 1) * batch[0] <= tokens and (rows is None or len(batch) < rows)
        if batch and fits:
            batch.append(width)
        else:
            batches.append([width])
    return [len(batch) for batch in batches]


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(1, 300), st.none() | st.integers(1, 9))
def test_batches_are_those_cut_by_hand(lengths: list[int], tokens: int, rows: int | None) -> None:
    widths = np.array(sorted(lengths, reverse=True), dtype=np.int64)
    assert cut(widths, tokens, rows) == cut_by_hand(widths.tolist(), tokens, rows)


@given(LENGTHS, st.integers(1, 300), st.none() | st.integers(1, 9), st.integers(0, 1))
def test_every_sentence_once_and_no_batch_over_its_budget(
    lengths: list[int], tokens: int, rows: int | None, trailing: int
) -> None:
    order = longest_first(np.array(lengths, dtype=np.int64))
    widths = np.array(lengths, dtype=np.int64)[order] + trailing
    assert sorted(order) == list(range(len(lengths)))
    assert (np.diff(widths) <= 0).all()
    counts = cut(widths, tokens, rows)
    assert sum(counts) == len(lengths)
    for start, count in zip(np.cumsum([0, *counts]), counts, strict=False):
        assert count >= 1
        assert count == 1 or count * widths[start] <= tokens
        assert rows is None or count <= rows


def test_equal_lengths_keep_their_order() -> None:
    assert longest_first(np.array([2, 5, 2, 5])).tolist() == [1, 3, 0, 2]


@given(st.lists(st.lists(st.lists(st.integers(0, 30_000), max_size=5), max_size=4), min_size=1, max_size=4))
def test_tokens_come_back_out_of_the_array(parts: list[list[list[int]]]) -> None:
    tokenised = Tokenised.joined([Tokenised.of(part) for part in parts])
    found = [
        tokenised.ids[start : start + length].tolist()
        for start, length in zip(tokenised.starts, tokenised.lengths, strict=True)
    ]
    assert found == [tokens for part in parts for tokens in part]
    assert len(tokenised) == len(found)


@pytest.mark.parametrize("kind", ["ids", "lengths"])
def test_no_sentences_at_all(kind: str) -> None:
    assert len(getattr(Tokenised.of([]), kind)) == 0
    assert cut(np.array([], dtype=np.int64), 10) == []
