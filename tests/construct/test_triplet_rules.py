"""What a generated sentence must be, what a score says, which triplets curation keeps; prompts with examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.construct import triplet_rules as rules
from nearer.construct.few_shot import read_few_shot, read_lines, read_pool
from nearer.construct.requests import TURN, Generated, Request
from nearer.construct.triplet_rules import Curation, find_fault, key_of, read_score, read_sentence
from nearer.errors import InputError, SettingError

ANCHOR = "Two children are running along the beach with their dog."


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("Paraphrase: “A cat sleeps.”", "A cat sleeps."),
        ("**Revised:** A cat sleeps.", "A cat sleeps."),
        ("The rewritten sentence: A cat sleeps.", "A cat sleeps."),
        ("False: True: A cat sleeps.", "A cat sleeps."),
        ("False alarms are common.", "False alarms are common."),
        ("Two things count: time and money.", "Two things count: time and money."),
    ],
)
def test_what_stands_around_a_sentence_goes(answer: str, sentence: str) -> None:
    assert read_sentence(answer) == sentence


@pytest.mark.parametrize(
    ("sentence", "fault"),
    [
        ("A pair of kids run by the sea.", None),
        ("I can't believe that two kids run by the sea.", None),
        ("", rules.EMPTY),
        ("...!", rules.EMPTY),
        ("two children are running along the beach, with their DOG", rules.COPIED),
        ("An example of the prompt!", rules.FROM_PROMPT),
        ("I'm sorry, but no.", rules.REFUSED),
        ("I cannot paraphrase this sentence.", rules.REFUSED),
        ("As an AI language model, I have no dog.", rules.REFUSED),
        ("Sure! Two kids run.", rules.REMARK),
        ("Here is a new sentence for you", rules.REMARK),
        ("The following says the same:", rules.REMARK),
        ("Zwei Kinder laufen mit dem Hund und der Katze am Strand, es ist nicht kalt.", rules.OTHER_LANGUAGE),
        ("两个孩子在海滩上奔跑", rules.OTHER_LANGUAGE),
        ("the dog and the dog and the dog and the dog and the dog", rules.LOOPING),
        ("kids " + " ".join(f"run{n}" for n in range(30)), rules.TOO_LONG),
        (" ".join(f"word{n}" for n in range(70)), rules.TOO_LONG),
    ],
)
def test_the_rule_that_a_sentence_breaks(sentence: str, fault: str | None) -> None:
    answer = Generated(Request(0, 0, ""), sentence, 3, "model")
    assert find_fault(answer, sentence, ANCHOR, ["An example of the prompt."], 64) == fault


def test_answers_that_did_not_end() -> None:
    for ended, fault in (("limit", rules.CUT_OFF), ("no room", rules.NO_ROOM)):
        answer = Generated(Request(0, 0, ""), "A pair of kids", 3, ended)  # type: ignore[arg-type]
        assert find_fault(answer, "A pair of kids", ANCHOR, [], 64) == fault


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("4", 4.0),
        ("4.5", 4.5),
        ("Score: 3.0", 3.0),
        ("**2**", 2.0),
        ("0.0 (nothing in common)", 0.0),
        ("4/5", 4.0),
        ("5.", 5.0),
        ("5.5", None),
        ("10", None),
        ("45", None),
        ("6", None),
        ("-", None),
        ("They are alike, 4 of 5.", None),
        ("", None),
    ],
)
def test_scores(answer: str, score: float | None) -> None:
    assert read_score(answer) == score


@given(st.integers(0, 50))
def test_every_score_with_a_decimal_is_read(tenths: int) -> None:
    assert read_score(f"{tenths / 10:.1f}") == tenths / 10


@pytest.mark.parametrize(
    ("scores", "swaps", "fault"),
    [
        ((4, 1), False, None),
        ((3, 2), False, None),
        ((3, 3), False, rules.SMALL_GAP),
        ((2, 1), False, rules.WEAK_POSITIVE),
        ((5, 4), False, rules.WEAK_NEGATIVE),
        ((1, 4), True, None),
        ((4, 5), True, rules.WEAK_NEGATIVE),
    ],
)
def test_curation_by_thresholds(scores: tuple[float, float], swaps: bool, fault: str | None) -> None:
    curation = Curation()
    assert curation.swaps(*scores) == swaps
    assert curation.fault(*(scores[::-1] if swaps else scores)) == fault
    assert not Curation(swap=False).swaps(1, 4)
    with pytest.raises(SettingError, match=r"gap: 6 is not within 0 and 5"):
        Curation(gap=6)


@given(st.text())
def test_a_key_is_its_own(text: str) -> None:
    assert key_of(key_of(text)) == key_of(text)


POOLS = {
    "triplet_positive_": (4, ["sentence"]),
    "triplet_negative_": (4, ["sentence"]),
    "triplet_sentences_": (3, ["count", "genre", "topics"]),
    "triplet_score": (1, ["sentence", "other"]),
}


@pytest.mark.parametrize("kind", POOLS)
def test_the_prompts_that_come_with_the_package(kind: str) -> None:
    count, fields = POOLS[kind]
    pool = read_pool(kind, fields)
    assert len(pool) == count
    for one in pool:
        assert len(one.examples) >= 3
        assert len(set(one.answers)) > 1


def test_examples_of_the_package_break_no_rule() -> None:
    for role in ("positive", "negative"):
        for one in read_pool(f"triplet_{role}_", ["sentence"]):
            for anchor, answer in one.examples:
                assert read_sentence(answer) == answer
                assert find_fault(Generated(Request(0, 0, ""), answer, 1, "model"), answer, anchor, [], 64) is None
    [score] = read_pool("triplet_score", ["sentence", "other"])
    assert None not in [read_score(answer) for answer in score.answers]


def test_examples_are_turns_and_the_instruction_is_said_once(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("Do it.\n\nIn: {sentence}\nOut:\n---\na {sentence}\n---\nb\n---\nc\n---\nd\n")
    made = read_few_shot(file, ["sentence"])
    assert made.prompt(["x {"], [1, 0]).split(TURN) == [
        "Do it.\n\nIn: c\nOut:",
        "d",
        "In: a {sentence}\nOut:",
        "b",
        "In: x {\nOut:",
    ]
    assert made.prompt([f"x{TURN}y"]) == "Do it.\n\nIn: x y\nOut:"
    assert sorted(made.draw(np.random.default_rng(0), 9)) == [0, 1]
    assert (made.name, made.answers) == ("own", ("b", "d"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"Do it.", r"has no \{sentence\} before its examples"),
        (b"Do it.\n---\n{sentence}\n---\nb", r"has no \{sentence\} before its examples"),
        (b"{sentence} {sentence}", r"\{sentence\} 2 times"),
        (b"{sentence}\n---\na", r"examples of 2 parts \(sentence, answer\).*1 parts found"),
        (b"{sentence}\n---\n\n---\nb", "none empty"),
        (b"\xff{sentence}", "not UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_prompts_that_cannot_be_used(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "own.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        read_few_shot(file, ["sentence"])
    assert str(file) in str(caught.value)


def test_topics_a_line(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text("rain\n\n snow \nrain\n")
    assert read_lines(tmp_path / "topics.txt") == ("rain", "snow")
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(InputError, match="is empty"):
        read_lines(tmp_path / "none.txt")
