"""Scores of several models in tables: what shares a row, what is averaged, what published figures stand beside."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nearer.evaluation.published import Published
from nearer.evaluation.task import TaskScore
from nearer.report.scores import blocks, scores_section
from nearer.report.subjects import Subject

STSB = TaskScore("STS-B", "sts", "test", "senteval", 1379, "pairs", "spearman", {"spearman": 70.0}, "aa")
SICK = replace(STSB, task="SICK-R", figures={"spearman": 60.0}, data_hash="bb")
DEV = replace(STSB, split="dev", figures={"spearman": 90.0}, data_hash="cc")
OWN = replace(STSB, task="mine", split="file", layout="file", figures={"spearman": 10.0}, data_hash="dd")


def subjects(*labels: str, group: str | None = None) -> list[Subject]:
    return [Subject(label, label, place, None, label, group) for place, label in enumerate(labels)]


def cells(html: str, row: str) -> list[str]:
    """What stands in the row of this name, without markup."""
    found = re.search(rf'<th scope="row">(?:<strong>)?{re.escape(row)}.*?</th>(.*?)</tr>', html)
    assert found is not None, row
    return [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td.*?</td>", found.group(1))]


def test_only_the_same_data_shares_a_row() -> None:
    other = replace(STSB, figures={"spearman": 80.0}, data_hash="zz")
    [block] = blocks([[STSB], [other], [STSB]])
    assert [sorted(row.scores) for row in block.rows] == [[0, 2], [1]]
    assert [row.name for row in block.rows] == [
        "STS-B test, spearman, senteval, data aa",
        "STS-B test, spearman, senteval, data zz",
    ]


@pytest.mark.parametrize(
    ("others", "names"),
    [
        ([], ["STS-B"]),
        ([DEV], ["STS-B", "STS-B dev"]),
        ([replace(STSB, measure="pearson", figures={"pearson": 1.0})], ["STS-B test, spearman", "STS-B test, pearson"]),
        ([replace(STSB, kind="other")], ["STS-B", "STS-B"]),  # in a table of its own
    ],
)
def test_names_are_as_short_as_tells_them_apart(others: list[TaskScore], names: list[str]) -> None:
    assert [row.name for block in blocks([[STSB, *others]]) for row in block.rows] == names


def test_dev_sets_and_own_files_do_not_count_in_the_average_of_test_sets() -> None:
    published, own = blocks([[DEV, STSB, SICK, OWN]])
    assert [row.name for row in published.rows] == ["STS-B", "SICK-R", "STS-B dev"]
    assert published.average(0) == 65.0
    assert own.average(0) == 10.0


def test_an_average_needs_every_task() -> None:
    undefined = replace(SICK, figures={"spearman": None})
    [block] = blocks([[STSB, SICK], [STSB], [STSB, undefined]])
    assert [block.average(place) for place in range(3)] == [65.0, None, None]


def test_a_column_a_model_and_the_best_is_marked() -> None:
    better = replace(STSB, figures={"spearman": 71.5})
    html = scores_section(subjects("a", "b", "c"), [[STSB, SICK], [better], []], {}, [])
    assert cells(html, "STS-B") == ["70.00", "71.50", "–"]
    assert '<td class="best">71.50</td>' in html
    assert cells(html, "average of 2") == ["65.00", "–", "–"]
    assert "Not scored: c." in html


def test_seeds_have_their_mean_and_deviation() -> None:
    scores = [[replace(STSB, figures={"spearman": value})] for value in (70.0, 71.0, 72.0)]
    html = scores_section(subjects("s0", "s1", "s2", group="s"), scores, {}, [])
    assert cells(html, "STS-B") == ["70.00", "71.00", "72.00", "71.00 ± 1.00"]
    html = scores_section(subjects("s0", "s1", "s2", group="s"), [*scores[:2], []], {}, [])
    assert cells(html, "STS-B")[-1] == "70.50 ± 0.71 (2 of 3)"


class TestPublished:
    def row(self, protocol: str = "SentEval, all", **figures: float) -> Published:
        named = {name.replace("_", "-"): value for name, value in figures.items()}
        return Published("sts", "spearman", "Sim<CSE>", "BERT-base", "SimCSE, Table 5", protocol, named, 76.25)

    def test_stands_beside_and_says_so(self) -> None:
        html = scores_section(subjects("a"), [[STSB, SICK]], {}, [self.row(STS_B=76.85, SICK_R=72.23)])
        assert cells(html, "Sim&lt;CSE&gt;, BERT-base") == ["76.85", "72.23", "76.25"]
        assert "published: SimCSE, Table 5" in html
        assert "not measured here" in html

    def test_an_average_only_over_the_same_tasks(self) -> None:
        html = scores_section(subjects("a"), [[STSB, SICK]], {}, [self.row(STS_B=76.85)])
        assert cells(html, "Sim&lt;CSE&gt;, BERT-base") == ["76.85", "–", "–"]

    @pytest.mark.parametrize(
        ("score", "protocol", "shown"),
        [
            (SICK, "SentEval, all", True),
            (SICK, "MTEB, raw text, SICK-R whole", False),
            (replace(SICK, layout="raw"), "MTEB, raw text, SICK-R whole", False),
            (replace(SICK, layout="raw"), "SentEval, all", False),
            (replace(SICK, split="all", layout="raw"), "MTEB, raw text, SICK-R whole", True),
            (replace(SICK, split="all"), "SentEval, all", False),
            (replace(SICK, split="dev"), "SentEval, all", False),
            (replace(SICK, measure="pearson", figures={"pearson": 1.0}), "SentEval, all", False),
        ],
    )
    def test_only_figures_of_the_same_thing(self, score: TaskScore, protocol: str, shown: bool) -> None:
        html = scores_section(subjects("a"), [[score]], {}, [self.row(protocol, SICK_R=72.23)])
        assert ("72.23" in html) == shown


def test_models_used_alike_are_named_together() -> None:
    protocol = {"pooling": "mean", "head": False, "max_length": 32}
    protocols = {"a": protocol, "b": {**protocol, "pooling": "cls"}, "c": protocol}
    html = scores_section(subjects("a", "b", "c"), [[STSB]] * 3, protocols, [])
    assert "<strong>a and c: </strong>pooling mean, max length 32." in html


def test_what_was_left_out_of_a_task_is_counted() -> None:
    assert "1,379 pairs, 2 left out" in scores_section(subjects("a"), [[replace(STSB, dropped=2)]], {}, [])


def test_no_scores_at_all() -> None:
    assert "No test scores" in scores_section(subjects("a"), [[]], {}, [])
