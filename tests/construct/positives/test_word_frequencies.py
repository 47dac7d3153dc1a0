"""Which words of a text are frequent."""

from __future__ import annotations

import pytest

from nearer.construct.positives import WordFrequencies
from nearer.errors import InputError, SettingError


def test_most_frequent_first_lower_cased_equal_ones_by_the_alphabet() -> None:
    text = ["The cat saw the dog.", "the 42 42 42 42 cat", "a Dog!"]
    assert WordFrequencies.of(text).spaced == ("the", "cat", "dog", "a", "saw")


def test_only_so_many_are_kept_of_each_kind() -> None:
    frequent = WordFrequencies.of(["the the the cat cat dog", "我的书的的书"], kept=2)
    assert frequent.spaced == ("the", "cat")
    assert frequent.unspaced == ("的", "书")


def test_a_foreign_word_does_not_make_a_sentence_unspaced() -> None:
    frequent = WordFrequencies.of(["Flights from Paris to 東京 are long"])
    assert "東京" in frequent.spaced
    assert frequent.unspaced == ()


def test_a_generator_of_sentences_is_read_once() -> None:
    assert WordFrequencies.of(sentence for sentence in ["a b", "b"]).spaced == ("b", "a")


def test_the_other_kind_serves_where_the_text_has_none() -> None:
    frequent = WordFrequencies.of(["the cat"])
    assert frequent.fitting(unspaced=True) == frequent.fitting(unspaced=False) == ("cat", "the")


def test_the_digest_knows_words_order_and_kind() -> None:
    given = [(("a", "b"), ()), (("b", "a"), ()), (("a",), ("b",)), ((), ("a", "b"))]
    assert len({WordFrequencies(*words).digest() for words in given}) == len(given)


def test_a_text_without_words_is_refused() -> None:
    with pytest.raises(InputError, match="no words"):
        WordFrequencies.of(["", "42 - 17"])


def test_none_kept_is_refused() -> None:
    with pytest.raises(SettingError, match="frequent_words: 0"):
        WordFrequencies.of(["the cat"], kept=0)
