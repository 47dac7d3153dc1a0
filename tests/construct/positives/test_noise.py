"""Noise changes one or two words and nothing else, by its seed alone."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.construct.positives import WordFrequencies
from nearer.construct.positives.noise import Noise, NoiseGenerator, split

FREQUENT = WordFrequencies(("the", "of", "and", "in", "to"), ("的", "是", "了"))
MASK = "[MASK]"
word = st.one_of(st.sampled_from(["a", "the", "rain", "Don't", "x-ray,", "東京", "42"]), st.from_regex(r"\A\w{1,6}\Z"))
spaced = (
    st.lists(word, min_size=1, max_size=12).map(" ".join).filter(lambda text: split(text)[1] == " " and text.split())
)
unspaced = st.text("的是了今天下雨很大我们，", min_size=1, max_size=15).filter(lambda text: text.strip("，"))
seeds = st.integers(min_value=0, max_value=2**63)


def is_part(fewer: list[str], more: list[str]) -> bool:
    """Whether all of the first are in the second, in order."""
    rest = iter(more)
    return all(piece in rest for piece in fewer)


@given(spaced, seeds)
def test_one_or_two_words_come_or_go_and_the_others_keep_their_order(sentence: str, seed: int) -> None:
    before, after = sentence.split(), Noise(FREQUENT)(sentence, Random(seed)).split()
    assert abs(len(after) - len(before)) in (1, 2)
    if len(after) > len(before):
        assert is_part(before, after)
        assert set(Counter(after) - Counter(before)) <= set(FREQUENT.spaced)
    else:
        assert after
        assert is_part(after, before)


@given(unspaced, seeds)
def test_text_without_spaces_changes_by_characters(sentence: str, seed: int) -> None:
    after = Noise(FREQUENT)(sentence, Random(seed))
    assert abs(len(after) - len(sentence)) in (1, 2)
    if len(after) > len(sentence):
        assert is_part(list(sentence), list(after))
        assert set(Counter(after) - Counter(sentence)) <= set(FREQUENT.unspaced)
    else:
        assert is_part(list(after), list(sentence))
        assert after.count("，") == sentence.count("，")


@given(spaced, seeds)
def test_a_mask_stands_where_the_word_was(sentence: str, seed: int) -> None:
    before, after = sentence.split(), Noise(FREQUENT, MASK)(sentence, Random(seed)).split()
    if len(after) == len(before):
        changed = [new for old, new in zip(before, after, strict=True) if old != new]
        assert changed in ([MASK], [MASK, MASK])
        assert len(changed) < len(before)
    else:
        assert MASK not in after


def test_both_ways_and_both_numbers_occur_about_equally_often() -> None:
    sentence = "six words are in this sentence"
    changes = Counter(len(Noise(FREQUENT)(sentence, Random(seed)).split()) - 6 for seed in range(4000))
    assert sorted(changes) == [-2, -1, 1, 2]
    assert all(900 < times < 1100 for times in changes.values())  # four standard deviations are 110


def test_all_places_are_used() -> None:
    noised = {Noise(FREQUENT)("one two three", Random(seed)) for seed in range(500)}
    assert {"the one two three", "one the two three", "one two the three", "one two three the"} <= noised
    assert {"two three", "one three", "one two", "one", "two", "three"} <= noised


def test_a_sentence_of_one_word_only_gets_insertions() -> None:
    noised = {Noise(FREQUENT)("rain", Random(seed)) for seed in range(200)}
    assert all("rain" in text.split() and len(text.split()) in (2, 3) for text in noised)


def test_latin_words_in_chinese_stay_whole_and_keep_their_spaces() -> None:
    noised = {Noise(FREQUENT)("iPhone 15 很好用。", Random(seed)) for seed in range(300)}
    assert {"15 很好用。", "iPhone 很好用。", "iPhone 15 好用。", "iPhone 15 的很好用。"} <= noised
    assert not any("iPhone15" in text for text in noised)


def test_marks_of_thai_stay_with_their_letter() -> None:
    assert split("ที่นี่ดี")[0] == ["ที่", "นี่", "ดี"]


@given(st.lists(st.tuples(spaced, seeds), min_size=1, max_size=6), st.integers(min_value=1, max_value=5))
def test_candidates_are_different_and_depend_on_sentence_and_seed_alone(
    pairs: list[tuple[str, int]], count: int
) -> None:
    generator = NoiseGenerator(FREQUENT)
    together = generator.candidates([text for text, _ in pairs], count, [seed for _, seed in pairs])
    for (sentence, seed), found in zip(pairs, together, strict=True):
        assert found == generator.candidates([sentence], count, [seed])[0]
        assert len(found) == len(set(found)) == count
        assert sentence not in found


def test_fewer_candidates_where_there_are_no_more() -> None:
    (found,) = NoiseGenerator(WordFrequencies(("the",), ())).candidates(["rain"], 50, [1])
    assert sorted(found) == ["rain the", "rain the the", "the rain", "the rain the", "the the rain"]


@pytest.mark.parametrize("sentence", ["", "  ", "?!"])
def test_without_words_there_are_none(sentence: str) -> None:
    assert NoiseGenerator(FREQUENT).candidates([sentence, "rain"], 1, [1, 1])[0] == []


def test_another_seed_gives_other_noise_and_identity_knows_the_words() -> None:
    generator = NoiseGenerator(FREQUENT)
    first, second = generator.candidates(["the quick brown fox"] * 2, 4, [1, 2])
    assert first != second
    other = NoiseGenerator(WordFrequencies(("the",), ()))
    assert generator.identity() == NoiseGenerator(FREQUENT).identity() != other.identity()
