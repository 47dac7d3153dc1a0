"""What the page and the last lines of adapt say of labelled queries."""

from __future__ import annotations

from dataclasses import replace

from made_outcome import FIGURES, labelled_outcome, make_outcome
from test_page import commands_of, rows_of, words_of

from nearer.adaptation.outcome import tell_labels
from nearer.adaptation.page import render_page


def test_what_chose_and_what_measured() -> None:
    words = words_of(labelled_outcome())
    assert "lists + 0.3 × BM25 + 1 × reranker was chosen instead of all-MiniLM-L6-v2 as it is, by 65 labelled" in words
    assert "By 66 labelled queries that chose nothing it gains +4.27 points of NDCG@10" in words
    assert "(95 % interval +1.18 to +7.36), which is certain; on tests made of the text +5.19" in words
    assert "65 chose, and 66 measured" in words
    assert "Spearman correlation of 0.80" in words
    assert "not among the documents ('x<b>')" in words
    assert "which nobody gave" not in words


def test_where_tests_chose() -> None:
    words = words_of(labelled_outcome(labels=replace(FIGURES, chose=0, measured=131, correlation=None)))
    assert "by tests made of the text. By 131 labelled queries" in words
    assert "The made tests chose; 131 labelled queries measured" in words
    assert "their orders cannot be compared" in words


def test_a_choice_that_does_not_hold() -> None:
    worse = replace(FIGURES.chosen, gain=-3.0, low=-5.0, high=-1.0)
    assert "so it is worse there: keep all-MiniLM-L6-v2" in words_of(
        labelled_outcome(labels=replace(FIGURES, chosen=worse))
    )
    assert "which is not certain" in words_of(
        labelled_outcome(labels=replace(FIGURES, chosen=replace(worse, high=1.0)))
    )


def test_figures() -> None:
    page = render_page(labelled_outcome())
    rows = rows_of(page, "All set-ups by 66 labelled queries")
    assert [row[1:] for row in rows][:2] == [
        ["47.39", "+4.27", "+1.18 to +7.36", "+5.19"],
        ["45.26", "+2.14", "\u22120.63 to +4.91", "+3.57"],
    ]
    assert rows_of(page, "Judges before anything was trained, by 131 labelled queries") == [
        ["all-MiniLM-L6-v2 (the base)", "43.50"],
        ["all-mpnet-base-v2 (teacher)", "48.40"],
        ["trusted judges together", "50.60"],
    ]


def test_the_last_lines() -> None:
    outcome = labelled_outcome()
    assert "+4.3 points of NDCG@10 (+1.2 to +7.4) by 66 labelled queries that chose nothing" in str(outcome)
    figures, correlation = tell_labels(outcome)
    assert figures.startswith("chosen by 65 labelled queries, measured by 66 others: NDCG@10 47.4 for lists + ")
    assert figures.endswith("45.3 for lists alone, 43.1 for all-MiniLM-L6-v2")
    assert correlation == "Spearman correlation of made tests and labels over the 4 set-ups: 0.80"
    assert tell_labels(make_outcome()) == []


def test_the_command_that_repeats_it() -> None:
    outcome = labelled_outcome()
    outcome.asked.update(labels="own labels", choose_by="tests")
    assert commands_of(outcome)[-1][12:16] == ["--labels", "own labels", "--choose-by", "tests"]
    assert "were handed over in Python" not in words_of(outcome)
