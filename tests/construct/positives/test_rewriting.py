"""Rounds of rewriting: what is asked of a rewriter, what of its outputs is kept, and what is counted."""

from __future__ import annotations

from collections import Counter

import pytest

from nearer.construct.positives import WordFrequencies
from nearer.construct.positives.noise import Noise
from nearer.construct.positives.rewriting import ROUNDS, Rewrite, fault, loops, rewritten


def run(
    rewrite: Rewrite, sentences: list[str], count: int, frequent: WordFrequencies, *, plain_first: bool = False
) -> tuple[list[list[str]], Counter[str]]:
    rejected: Counter[str] = Counter()
    found = rewritten(
        sentences,
        count,
        range(len(sentences)),
        noise=Noise(frequent),
        rewrite=rewrite,
        plain_first=plain_first,
        rejected=rejected,
    )
    return found, rejected


def test_outputs_are_kept_in_the_order_of_their_inputs(frequent: WordFrequencies) -> None:
    seen: list[str] = []

    def shout(texts: list[str]) -> list[str | None]:
        seen.extend(texts)
        return [f"{text} indeed" for text in texts]

    found, rejected = run(shout, ["one two three", "four five six"], 3, frequent)
    assert [*found[0], *found[1]] == [f"{text} indeed" for text in seen]
    assert len(seen) == 6
    assert not rejected


def test_the_plain_sentence_goes_first_where_asked(frequent: WordFrequencies) -> None:
    found, _ = run(lambda texts: [f"{text} indeed" for text in texts], ["one two three"], 3, frequent, plain_first=True)
    assert found[0][0] == "one two three indeed"
    assert len(set(found[0])) == 3


def test_equal_outputs_are_counted_and_tried_again_in_so_many_rounds(frequent: WordFrequencies) -> None:
    calls: list[list[str]] = []

    def forgetful(texts: list[str]) -> list[str | None]:
        calls.append(texts)
        return ["Always  this." if place % 2 else "always this." for place in range(len(texts))]

    found, rejected = run(forgetful, ["one two three four"], 3, frequent)
    assert found == [["always this."]]
    assert [len(texts) for texts in calls] == [3, *[2] * (ROUNDS - 1)]
    assert rejected == {"equal to another candidate": 2 + 2 * (ROUNDS - 1)}


def test_no_input_is_tried_twice_where_there_are_few() -> None:
    seen: list[str] = []

    def useless(texts: list[str]) -> list[str | None]:
        seen.extend(texts)
        return [None] * len(texts)

    run(useless, ["rain"], 4, WordFrequencies(("the",), ()))
    assert sorted(seen) == ["rain the", "rain the the", "the rain", "the rain the", "the the rain"]


def test_the_sentence_itself_is_no_candidate_in_other_case_and_spacing_either(frequent: WordFrequencies) -> None:
    found, rejected = run(lambda texts: ["ONE  two three" for _ in texts], ["One two three"], 2, frequent)
    assert found == [[]]
    assert rejected == {"equal to the sentence": 2 * ROUNDS}


def test_only_those_with_too_few_are_tried_again(frequent: WordFrequencies) -> None:
    calls: list[list[str]] = []

    def fails_first(texts: list[str]) -> list[str | None]:
        calls.append(texts)
        return [None if "bad" in text and len(calls) == 1 else f"{text} indeed" for text in texts]

    found, _ = run(fails_first, ["bad bad bad bad", "good good good good"], 2, frequent)
    assert [len(texts) for texts in found] == [2, 2]
    assert len(calls) == 2
    assert all("bad" in text for text in calls[1])


def test_sentences_without_words_are_not_asked(frequent: WordFrequencies) -> None:
    def refuse(texts: list[str]) -> list[str | None]:
        raise AssertionError(texts)

    assert run(refuse, ["", " ?! "], 2, frequent)[0] == [[], []]


@pytest.mark.parametrize(
    ("text", "is_loop"),
    [
        ("no no no no", True),
        ("he said no no no", False),
        ("on and on and on and on and", True),
        ("on and on and on and", False),
        ("start then a b c a b c A b c a b c end", True),
        ("我们我们我们我们", True),
        ("the cat and the dog and the bird and the fish", False),
    ],
)
def test_four_times_in_a_row_is_a_loop(text: str, is_loop: bool) -> None:
    assert loops(text) is is_loop


def test_a_loop_that_the_sentence_has_is_none() -> None:
    assert fault("no no no no", "yes") == "loops"
    assert fault("no no no no", "No, no no no no") is None
    assert fault("...", "yes") == "empty"
