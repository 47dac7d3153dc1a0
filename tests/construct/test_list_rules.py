"""Rules of sentences and lists; numbered answers; templates."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.construct.list_growth import (
    EMPTY,
    LINE_BREAK,
    REPEATED,
    cleaned,
    fault_of,
    parse_numbered,
    without_repeated_end,
)
from nearer.construct.requests import METHODS, Template, load_template
from nearer.errors import InputError, SettingError


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  A man eats.\n", "A man eats."),
        ('"A man eats."', "A man eats."),
        ("Result: “A man eats.”", "A man eats."),
        ("RESULT:\n'A man eats.'", "A man eats."),
        ("Result: Result: A man eats.", "A man eats."),
        ("**Result:** A man eats.", "A man eats."),
        ('"No," he said, "I can\'t."', '"No," he said, "I can\'t."'),  # two quotations, not one around all
        ("The results: two of three.", "The results: two of three."),
        ("Rewritten sentence: Rewrite: A man eats.", "A man eats."),
        ("Result: ", ""),
        ('""', ""),
        ("One.\nTwo.", "One.\nTwo."),
    ],
)
def test_what_stands_around_an_answer_goes(raw: str, clean: str) -> None:
    assert cleaned(raw) == clean


@given(st.text())
def test_cleaning_again_changes_nothing(text: str) -> None:
    assert cleaned(cleaned(text)) == cleaned(text)


@pytest.mark.parametrize(
    ("sentence", "before", "fault"),
    [
        ("c", ["a", "b"], None),
        ("", ["a"], EMPTY),
        ("a\nb", ["a"], LINE_BREAK),
        ("a\u2028b", ["a"], LINE_BREAK),
        ("a\rb", ["a"], LINE_BREAK),
        ("a", ["a", "b"], None),
        ("a", ["a", "b", "a"], REPEATED),
        ("a  b", ["a b", "x", "a b"], REPEATED),
        ("A", ["a", "a"], None),
    ],
)
def test_the_rule_that_a_sentence_breaks(sentence: str, before: list[str], fault: str | None) -> None:
    assert fault_of(sentence, before) == fault


@pytest.mark.parametrize(
    ("sentences", "kept"),
    [
        ("abb", "abb"),  # two equal last ones are no fault
        ("abbb", "abb"),
        ("abbbc", "abb"),  # the last but one counts too
        ("abbbcd", "abbbcd"),  # one in the middle does not
        ("aaa", "aa"),
        ("abababab", "abab"),
        ("a", "a"),
    ],
)
def test_an_end_that_occurs_three_times_is_cut(sentences: str, kept: str) -> None:
    assert without_repeated_end(list(sentences)) == list(kept)


def test_by_the_released_rules_a_sentence_may_repeat_and_may_not_be_empty() -> None:
    assert fault_of("a", ["a", "a", "a"], "released") is None
    assert fault_of("", ["a"], "released") == EMPTY


@pytest.mark.parametrize("form", ["{}. {}", "{}) {}", "({}) {}", "{}: {}", "**{}.** {}", "- {}. {}", "  {} . {}"])
def test_numbers_in_all_their_forms(form: str) -> None:
    text = "\n".join(form.format(number, f"Sentence of 3. {number}") for number in (1, 2, 3))
    assert parse_numbered(text) == ["Sentence of 3. 1", "Sentence of 3. 2", "Sentence of 3. 3"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Here is the list:\n\n1. a\n\n2. b\n\nI hope that 2 of these help!", ["a", "b"]),
        ("1. a\nand more\n2. b", ["a\nand more", "b"]),
        ("1. a\n3. c", ["a"]),
        ("1. a\n2. b\n1. a", ["a", "b"]),
        ("2. b\n1. a\n2. c", ["a", "c"]),
        ("1.5 million people\n1. a", ["a"]),
        ("1. \n2. b", ["", "b"]),
        ("no list at all", []),
        ("", []),
    ],
)
def test_a_numbered_answer_becomes_its_sentences(text: str, sentences: list[str]) -> None:
    assert parse_numbered(text) == sentences


@given(st.lists(st.text(st.characters(categories=("L", "Zs"), exclude_characters="\x85"), min_size=1), max_size=40))
def test_any_sentences_come_back_from_a_numbered_answer(sentences: list[str]) -> None:
    sentences = [sentence for sentence in map(str.strip, sentences) if sentence]
    assert parse_numbered("\n".join(f"{n}. {s}" for n, s in enumerate(sentences, 1))) == sentences


def test_a_template_takes_the_sentence_as_it_is() -> None:
    template = Template("{other} {steps}: {sentence}!", 8)
    assert template.prompt("a {sentence} {steps} {") == "{other} 8: a {sentence} {steps} {!"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_template(method: str) -> None:
    assert "The cat sleeps." in load_template(method, 5).prompt("The cat sleeps.")


def test_the_template_of_whole_lists_says_how_many_and_shows_a_list_that_parses() -> None:
    text = load_template("single-step", 7).prompt("The cat sleeps.")
    assert text.count("7 ") >= 2
    assert len(parse_numbered(text.split("Example output:")[1].split("Here is the sentence")[0])) == 32


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"Rewrite it.", "no {sentence}"),
        (b"{sentence} {sentence}", "{sentence} 2 times"),
        (b"\xff{sentence}", "UTF-8"),
    ],
)
def test_a_template_that_cannot_be_used(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "own.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        load_template("directional", 5, path)
    assert str(path) in str(caught.value)


def test_a_template_or_method_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt"):
        load_template("directional", 5, tmp_path / "none.txt")
    with pytest.raises(SettingError, match="'sideways' is not one of directional"):
        load_template("sideways", 5)
