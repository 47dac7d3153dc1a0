"""Views of passages: what they are cut out of no longer has them, and how many words are shared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.adaptation.made_tests import hold_out, make_tests
from nearer.adaptation.passages import Passage
from nearer.adaptation.tournament import OTHER_WORDS
from nearer.adaptation.views import RareWords, View, find_views
from nearer.errors import InputError

NOUNS = "harbour kettle garden engine violin bridge ladder candle window market forest meadow".split()  # noqa: SIM905
VERBS = "repairs paints carries watches builds measures".split()  # noqa: SIM905


def passage(seed: int, **parts: object) -> Passage:
    noun, verb = NOUNS[seed % len(NOUNS)], VERBS[seed % len(VERBS)]
    text = (
        f"The keeper number{seed} {verb} the {noun} every morning. Rain fell on the roof{seed} for hours and hours. "
        f"Who in town{seed} said that the {noun} was old? Nobody in the village{seed} remembers the storm of that year."
    )
    known = {"document": f"d{seed}", "number": 0, "title": f"How the keeper{seed} {verb} a {noun}", "headings": ()}
    return Passage(**{**known, "text": text, **parts})  # type: ignore[arg-type]


def words_of(passages: Sequence[Passage]) -> RareWords:
    return RareWords([one.titled for one in passages])


def views_of(one: Passage) -> list[View]:
    others = [passage(number) for number in range(20, 40)]
    return find_views([one, *others], [0], words_of([one, *others]))


def test_every_kind_is_cut_out_of_its_passage() -> None:
    found = views_of(passage(1, headings=("The long way to the harbour",)))
    assert {view.kind for view in found} == {"title", "heading", "opening", "question", "sentence"}
    for view in found:
        assert view.query not in view.rest
        assert 0 <= view.overlap <= 1
    by_kind = {view.kind: view for view in found}
    assert by_kind["title"].rest.startswith("The long way to the harbour")
    assert by_kind["heading"].rest.startswith("How the keeper1")
    assert by_kind["question"].query.endswith("?")


def test_the_docstring_of_code_asks_for_it() -> None:
    code = 'def largest(values):\n    """Find the largest value of a list.\n\n    :param values: numbers\n    """\n'
    code += "    best = values[0]\n    for value in values:\n        best = max(best, value)\n    return best"
    (view,) = [view for view in views_of(passage(1, title="", text=code)) if view.kind == "docstring"]
    assert view.query == "Find the largest value of a list."
    assert "Find the largest" not in view.rest
    assert "best = max(best, value)" in view.rest


def test_overlap_is_the_share_of_rarer_words_that_the_rest_has() -> None:
    one = passage(
        1, title="Zebra quagga lantern teapot", text="A zebra and a teapot stood in the far corner of the room."
    )
    view = next(view for view in views_of(one) if view.kind == "title")
    assert view.overlap == pytest.approx(0.5)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=6))
def test_any_text_has_views_whose_rest_is_long_enough(lines: list[str]) -> None:
    for view in views_of(passage(1, text="\n".join(lines))):
        assert len(view.rest.split()) >= 1
        assert view.passage == 0


def test_no_document_is_both_held_out_and_trained_on() -> None:
    passages = [passage(number // 3, document=f"d{number // 3}", number=number % 3) for number in range(90)]
    held = hold_out(passages, share=1 / 3, most=1000, random=np.random.default_rng(0))
    by_document: dict[str, set[bool]] = {}
    for one, is_held in zip(passages, held, strict=True):
        by_document.setdefault(one.document, set()).add(bool(is_held))
    assert all(len(found) == 1 for found in by_document.values())
    assert 25 <= held.sum() <= 35
    few = hold_out(passages, share=1 / 3, most=6, random=np.random.default_rng(0))
    assert few.sum() == 6


def test_each_kind_makes_a_test_as_it_is_and_one_in_other_words() -> None:
    passages = [passage(number) for number in range(150)]
    held = np.arange(150) < 60
    tests = {
        test.name: test
        for test in make_tests(passages, held, words_of(passages), queries=40, random=np.random.default_rng(1))
    }
    assert {"title", "opening", "sentence", "question"} <= set(tests)
    for name, test in tests.items():
        assert len(test) <= 40
        assert len(set(test.passages.tolist())) == len(test)
        assert held[test.passages].all()
        if not name.endswith(OTHER_WORDS):
            assert tests[f"{name} {OTHER_WORDS}"].overlap <= test.overlap + 1e-9


@pytest.mark.parametrize(("queries", "asked"), [(30, 45), (100, 150), (400, 200)])
def test_few_kinds_have_more_queries_each(queries: int, asked: int) -> None:
    """Of six usual tests there are four here, and 200 passages were held out."""
    texts = [passage(number).text.replace("Who in", "They in").replace("?", ".") for number in range(300)]
    passages = [passage(number, title="", text=text) for number, text in enumerate(texts)]
    held = np.arange(300) < 200
    tests = make_tests(passages, held, words_of(passages), queries=queries, random=np.random.default_rng(1))
    assert {test.name: len(test) for test in tests if not test.name.endswith(OTHER_WORDS)} == {
        "opening": asked,
        "sentence": asked,
    }
    assert all(len(test) == min(asked, 50) for test in tests if test.name.endswith(OTHER_WORDS))


def test_queries_in_other_words_are_of_one_kind_however_many_are_asked() -> None:
    """Any of the quarter with the lowest overlap: the very lowest would favour whatever matches no words at all."""
    passages = []
    for number in range(400):
        own, others = ([f"{letter}{number}{word}" for word in "abcdefgh"] for letter in "no")
        shared = number % 9
        title = " ".join([*own[:shared], *others[shared:]])
        passages.append(
            passage(number, title=title, text=f"Every morning {' '.join(own)} stood there. Then it rained.")
        )
    held = np.arange(400) < 390
    name = f"title {OTHER_WORDS}"
    quarter, *few = (
        next(
            test
            for test in make_tests(passages, held, words_of(passages), queries=queries, random=random)
            if test.name == name
        )
        for queries, random in [
            (400, np.random.default_rng(0)),
            *((30, np.random.default_rng(seed)) for seed in range(5)),
        ]
    )
    assert len(quarter) == 97
    assert 0.05 < quarter.overlap < 0.2
    assert [len(test) for test in few] == 5 * [30]
    assert np.mean([test.overlap for test in few]) == pytest.approx(quarter.overlap, abs=0.04)
    assert len({tuple(sorted(test.queries)) for test in few}) == 5


def test_whose_words_people_ask_in_decides_which_tests_are_made() -> None:
    passages = [passage(number) for number in range(150)]
    held = np.arange(150) < 60
    made = {
        words: {
            test.name: test.queries
            for test in make_tests(
                passages, held, words_of(passages), queries=30, random=np.random.default_rng(1), asked_in=words
            )
        }
        for words in (None, "documents", "own")
    }
    assert {*made["documents"], *made["own"]} == {*made[None]}
    assert not any(name.endswith(OTHER_WORDS) for name in made["documents"])
    assert all(name.endswith(OTHER_WORDS) for name in made["own"])
    for words in ("documents", "own"):
        for name, queries in made[words].items():
            assert queries[: len(made[None][name])] == made[None][name]


def test_too_little_text_for_any_test_says_so() -> None:
    passages = [passage(number) for number in range(40)]
    with pytest.raises(InputError, match="no test can be made"):
        make_tests(passages, np.arange(40) < 20, words_of(passages), queries=40, random=np.random.default_rng(1))
