"""Sentences negated by rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.text.negation import IRREGULAR, REGULAR, _base, _third_person, negate, put_not_first


@pytest.mark.parametrize(
    ("sentence", "negated"),
    [
        ("A man is eating.", "A man is not eating."),
        ("It is not a bird.", "It is a bird."),
        ("He can't swim.", "He can swim."),
        ("They won't come, and don't call.", "They will come, and don't call."),
        ("Don’t run.", "Do run."),
        ("She will have won.", "She will not have won."),
        ("He has won two prizes.", "He has not won two prizes."),
        ("She has also been there.", "She has not also been there."),
        ("He has a son.", "He does not have a son."),
        ("They had two cats.", "They did not have two cats."),
        ("The village lies there and contains a church.", "The village lies there and does not contain a church."),
        ("She plays the piano.", "She does not play the piano."),
        ("He studies law.", "He does not study law."),
        ("Many people live here.", "Many people do not live here."),
        ("The band played in Rome.", "The band did not play in Rome."),
        ("The train stopped there.", "The train did not stop there."),
        ("He moved to Paris.", "He did not move to Paris."),
        ("They married young.", "They did not marry young."),
        ("She became a nurse.", "She did not become a nurse."),
        ("A red house", "Not A red house"),
        ("", "Not "),
    ],
)
def test_the_first_rule_that_fits(sentence: str, negated: str) -> None:
    assert negate(sentence) == negated


def test_base_forms_are_found_again() -> None:
    for base in REGULAR:
        past = base[:-1] + "ied" if base.endswith("y") and base[-2] not in "aeiou" else base.removesuffix("e") + "ed"
        if base == "stop":
            past = "stopped"
        assert _base(past[:-2]) == base
        assert _third_person(base).endswith("s")
    assert not REGULAR & set(IRREGULAR)


@given(st.text(max_size=60))
def test_any_text_becomes_another(text: str) -> None:
    assert negate(text) != text
    assert put_not_first(text) == f"Not {text}"
