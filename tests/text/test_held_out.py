"""What is held out of a text: no more than is asked, whatever the order, and nothing of it stays in the rest."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.text.faults import Fault
from nearer.text.reading import read_pairs, read_sentences
from nearer.text.reading_filters import hold_out, same_text
from nearer.text.records import texts_of


def sentences(count: int) -> list[str]:
    return [f"sentence number {place} is about {place % 7} things" for place in range(count)]


@pytest.mark.parametrize(("count", "held"), [(50, 0), (99, 0), (100, 20), (400, 40), (6000, 500)])
def test_by_default_a_tenth_within_bounds(count: int, held: int) -> None:
    found = hold_out(read_sentences(sentences(count)))
    assert len(found.records) == held
    assert len(list(found.rest)) == count - held


@pytest.mark.parametrize(("asked", "held"), [(2, 2), (30, 30), (500, 40)])
def test_as_many_as_asked_but_never_more_than_half(asked: int, held: int) -> None:
    assert len(hold_out(read_sentences(sentences(80)), asked).records) == held


def test_neither_order_nor_repetition_changes_the_choice() -> None:
    text = sentences(300)
    shuffled = random.Random(1).sample(text + text[:100], 400)
    assert hold_out(read_sentences(text), 25).records == hold_out(read_sentences(shuffled), 25).records


def test_the_digest_follows_the_choice() -> None:
    text = read_sentences(sentences(300))
    digests = {text.fingerprint(), *(hold_out(text, count).rest.fingerprint() for count in (10, 20, 20))}
    assert len(digests) == 3


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), min_size=4, max_size=40),
    st.integers(2, 8),
)
def test_no_side_of_a_held_out_pair_is_trained_on(pairs: list[tuple[str, str]], count: int) -> None:
    """Also not where it differs in case and punctuation."""
    written = [(first.upper() + "!" if place % 2 else first, second) for place, (first, second) in enumerate(pairs)]
    reading = read_pairs(written)
    found = hold_out(reading, count)
    held = {same_text(text) for record in found.records for text in texts_of(record)}
    rest = list(found.rest)
    assert held.isdisjoint(same_text(text) for record in rest for text in texts_of(record))
    report = found.rest.report
    assert report.read == len(pairs) == report.kept + report.dropped
    assert report.kept == len(rest)


def test_what_is_held_out_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n".join([*sentences(120), ""]))
    found = hold_out(read_sentences(path), 20)
    list(found.rest)
    assert found.rest.report.count(Fault.HELD_OUT) == 20
    found.rest.report.check_kept()
