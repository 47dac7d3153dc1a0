"""Spans of documents: how long they are, and where positives lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.text.spans import SpanSampler


def drawn(sampler: SpanSampler, tokens: int, seed: int) -> tuple[list[range], list[range]]:
    anchors, positives = sampler(np.arange(tokens), np.random.default_rng(seed))
    spans = [range(int(span[0]), int(span[-1]) + 1) for span in (*anchors, *positives)]
    assert [len(span) for span in spans] == [len(span) for span in (*anchors, *positives)]  # tokens side by side
    return spans[: len(anchors)], spans[len(anchors) :]


@given(tokens=st.integers(1, 600), anchors=st.integers(1, 4), positives=st.integers(1, 3), seed=st.integers(0, 99))
def test_spans_lie_in_the_document_and_positives_touch_their_anchor(
    tokens: int, anchors: int, positives: int, seed: int
) -> None:
    sampler = SpanSampler(anchors, positives, shortest=5, longest=40)
    found, near = drawn(sampler, tokens, seed)
    assert (len(found), len(near)) == (anchors, anchors * positives)
    for number, span in enumerate((*found, *near)):
        assert 0 <= span.start < span.stop <= tokens
        assert len(span) <= 40
        if number >= anchors:
            anchor = found[(number - anchors) // positives]
            assert span.stop >= anchor.start
            assert span.start <= anchor.stop


def test_anchors_of_a_long_document_do_not_overlap() -> None:
    for seed in range(50):
        first, second = drawn(SpanSampler(2, 1, shortest=5, longest=40), 2 * 2 * 40, seed)[0]
        assert set(first).isdisjoint(second)


def test_anchors_are_long_and_positives_short() -> None:
    found = [drawn(SpanSampler(2, 2, shortest=32, longest=512), 2048, seed) for seed in range(200)]
    anchors = [len(span) for spans, _ in found for span in spans]
    positives = [len(span) for _, spans in found for span in spans]
    assert np.mean(anchors) == pytest.approx(32 + 480 * 4 / 6, rel=0.05)
    assert np.mean(positives) == pytest.approx(32 + 480 * 2 / 6, rel=0.05)
    assert min(anchors + positives) >= 32
