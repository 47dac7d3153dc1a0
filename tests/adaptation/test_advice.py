"""What adapt says would help more."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from made_outcome import BASE, FIGURES, TESTS, WHOLE, WORDS, labelled_outcome, make_outcome

from nearer.adaptation.advice import find_advice
from nearer.adaptation.outcome import Outcome, known_gain, tell_teachers
from nearer.adaptation.page import render_page
from nearer.adaptation.tournament import Contender, Standing


def titles(outcome: Outcome) -> list[str]:
    page = render_page(outcome)
    section = page[page.index('<h2 id="advice">') : page.index('<h2 id="next">')]
    return re.findall("<dt>(.*?)</dt>", section)


def test_only_the_kinds_of_tests_are_few() -> None:
    assert titles(labelled_outcome()) == ["More kinds of tests"]


def test_nothing_is_missing() -> None:
    names = ["title", "heading", "question"]
    by_test = dict.fromkeys(names, 50.0)
    standings = [replace(each, by_test=by_test) for each in (WHOLE, BASE)]
    outcome = labelled_outcome(
        labels=replace(FIGURES, standings=FIGURES.standings[::2]),
        tests=dict.fromkeys(names, TESTS["title"]),
        standings=standings,
        chosen=standings[0],
        encoder_alone=BASE,
    )
    assert titles(outcome) == []
    assert "Nothing that adapt can use was missing" in render_page(outcome)


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ({"teachers": []}, "A teacher"),
        ({"judge": None}, "A judge"),
        ({"log": 0, "queries": None, "llm": "writer"}, "A log of queries"),
    ],
)
def test_what_was_not_given(asked: dict[str, Any], title: str) -> None:
    outcome = labelled_outcome()
    outcome.asked.update(asked)
    assert titles(outcome) == [title, "More kinds of tests"]


@pytest.mark.parametrize(
    ("plan", "title"),
    [
        ({"reranks": False}, "Time for the judge"),
        ({"steps": 0}, "Time to train"),
        ({"steps": 0, "most_steps": 0}, "Training"),
    ],
)
def test_what_there_was_no_time_for(plan: dict[str, Any], title: str) -> None:
    outcome = labelled_outcome()
    outcome.plan.update(plan)
    assert titles(outcome) == [title, "More kinds of tests"]


TEACHER = Standing(
    Contender("all-mpnet-base-v2", 0.3, teacher=True),
    9.0,
    7.5,
    10.5,
    {"title": 59.62, "title in other words": 43.07, "sentence": 68.44},  # 8, 10 and 8 points above the base
)


def with_teacher(chosen: Standing = WHOLE, teacher: Standing = TEACHER, **changed: Any) -> Outcome:
    outcome = make_outcome(chosen, teachers=[teacher], **changed)
    outcome.latency[teacher.contender.encoder] = 5 * outcome.latency[chosen.contender.encoder]
    outcome.weights[teacher.contender.encoder] = 4 * outcome.weights[chosen.contender.encoder]
    return outcome


def test_a_teacher_that_is_better_itself() -> None:
    outcome = with_teacher()
    [line] = tell_teachers(outcome)
    # 8 + 0.47 * 2; for what was chosen the weighted mean of 5.74, 6.88 and 2.95
    assert line == (
        "on the tests with known answers all-mpnet-base-v2 + 0.3 × BM25 itself gains +8.9 points, lists + 0.3 × BM25 + "
        "1 × reranker +5.4; a query's vector takes 5.0 times as long, and the model has 4.0 times the weights"
    )
    assert titles(outcome)[0] == "The teacher itself"
    assert "--serve-teachers" in find_advice(outcome)[0].option


def test_tests_as_judged_say_nothing_of_a_teacher() -> None:
    """In them it would agree with itself."""
    judged = {**TESTS, "sentence as judged": {"queries": 400, "overlap": 0.4, "weight": 3.0, "base": 70.0}}
    whole = replace(WHOLE, by_test={**WHOLE.by_test, "sentence as judged": 10.0})
    outcome = with_teacher(tests=judged, chosen=whole)
    assert known_gain(outcome, whole) == pytest.approx(known_gain(make_outcome(), WHOLE))


def test_a_teacher_that_is_hardly_better_itself() -> None:
    by_test = {name: value + 0.1 for name, value in WHOLE.by_test.items()}
    outcome = with_teacher(teacher=replace(TEACHER, by_test=by_test))
    assert tell_teachers(outcome) == []
    assert "The teacher itself" not in titles(outcome)


def test_little_text_and_a_foreign_model() -> None:
    outcome = labelled_outcome(remarks=["base: does not know 31% of the text's words"], all_passages=1601)
    outcome.account["kept"] = 999
    assert titles(outcome) == ["Another model", "Time for all of the text", "More text", "More kinds of tests"]


def test_no_labels() -> None:
    assert titles(make_outcome()) == ["Labelled queries", "More kinds of tests"]


class TestWhoseWords:
    QUESTION = "One answer: do people ask in the documents' words or in their own?"

    def titles(self, **asked: Any) -> list[str]:
        """Of an outcome in which BM25 wins the tests in the documents' words, and the base those in other words."""
        words = replace(WORDS, by_test={**BASE.by_test, "title": 60.0, "title in other words": 30.0})
        outcome = make_outcome(standings=[words, BASE])
        outcome.asked.update(asked)
        return [each.title for each in find_advice(outcome)]

    def test_it_is_asked_where_the_answer_matters(self) -> None:
        assert self.titles()[0] == self.QUESTION
        words = replace(WORDS, by_test={**BASE.by_test, "title": 60.0, "title in other words": 30.0})
        [advice, *_] = find_advice(make_outcome(standings=[words, BASE]))
        assert "won by base + 0.3 × BM25, tests in other words by base." in advice.words

    @pytest.mark.parametrize("asked_in", ["own", "documents"])
    def test_not_twice(self, asked_in: str) -> None:
        assert self.QUESTION not in self.titles(asked_in=asked_in)

    def test_not_where_both_kinds_of_tests_agree_or_labels_know_better(self) -> None:
        assert self.QUESTION not in [each.title for each in find_advice(make_outcome(standings=[WHOLE, BASE]))]
        words = replace(WORDS, by_test={**BASE.by_test, "title": 60.0})
        assert self.QUESTION not in [each.title for each in find_advice(labelled_outcome(standings=[words, BASE]))]

    def test_not_where_there_is_one_kind_of_tests(self) -> None:
        named = {"title": TESTS["title"]}
        standings = [replace(each, by_test={"title": each.by_test["title"]}) for each in (WORDS, BASE)]
        outcome = make_outcome(tests=named, standings=standings)
        assert self.QUESTION not in [each.title for each in find_advice(outcome)]
