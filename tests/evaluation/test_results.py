"""Results: looking up, averaging, showing and writing them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from nearer.errors import InputError
from nearer.evaluation import Results, TaskScore
from nearer.storage.sealed import read_sealed_json

PROTOCOL = {"similarity": "cosine", "pooling": "cls", "head": False}
DATA_HASH = "0123456789abcdef"


def score(
    task: str, split: str = "test", figure: float | None = 50.0, remark: str = "", correlation: str = "spearman"
) -> TaskScore:
    figures = {correlation: figure, f"{correlation} mean": None}
    protocol = {"correlation": correlation, "aggregation": "all"}
    return TaskScore(
        task, "sts", split, "raw", 1234, "pairs", correlation, figures, DATA_HASH, protocol=protocol, remark=remark
    )


def transfer(task: str, figure: float | None, split: str = "test", **protocol: object) -> TaskScore:
    figures = {"accuracy": figure, "dev accuracy": 99.0}
    return TaskScore(
        task, "transfer", split, "senteval", 10_662, "sentences", "accuracy", figures, DATA_HASH, protocol=protocol
    )


def reranking(task: str, figure: float | None, remark: str = "") -> TaskScore:
    figures = {"map": figure, "mrr@10": figure}
    return TaskScore(task, "reranking", "test", "wikiqa", 243, "queries", "map", figures, DATA_HASH, remark=remark)


def results(*scores: TaskScore, model: str = "a model", **protocol: object) -> Results:
    return Results(model, {**PROTOCOL, **protocol}, list(scores), 99, 1.25, {"nearer": "0"})


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]


def shown(found: Results) -> str:
    output = io.StringIO()
    Console(file=output, width=100).print(found.table())
    return output.getvalue()


class TestLookup:
    @pytest.mark.parametrize("name", ["STS-B", "STS-B test", "stsb"])
    def test_names(self, name: str) -> None:
        assert results(score("STS12", figure=10.0), score("STS-B", figure=20.0))[name] == 20.0

    def test_splits(self) -> None:
        found = results(score("STS-B", "dev", 10.0), score("STS-B", "test", 20.0))
        assert (found["stsb-dev"], found["stsb"], found["STS-B dev"], found["STS-B test"]) == (10.0, 20.0, 10.0, 20.0)

    def test_a_name_of_two_is_refused(self) -> None:
        found = results(score("STS-B", "dev", 10.0), score("STS-B", "test", 20.0))
        with pytest.raises(KeyError, match="'STS-B' is 2 of the tasks: STS-B dev, STS-B test"):
            found["STS-B"]

    @pytest.mark.parametrize("name", ["STS13", "", "stsb-dev"])
    def test_a_name_of_none(self, name: str) -> None:
        with pytest.raises(KeyError, match=f"'{name}' is none of the tasks: STS12"):
            results(score("STS12"))[name]

    def test_in_any_case(self) -> None:
        assert results(score("STS12", figure=10.0), transfer("MR", 80.0))["mr"] == 80.0

    def test_names_as_asked_for(self) -> None:
        found = results(
            score("STS-B ranking", "dev", 1.0),
            reranking("AskUbuntuDupQuestions", 2.0),
            transfer("SST-2", 3.0),
            score("MR", "dev", 4.0),
            score("STS-B", figure=5.0),
        )
        names = ["ranking:stsb-dev", "askubuntu", "sst2", "mr-dev", "stsb"]
        assert [found[name] for name in names] == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert found["sst2-fast"] == 3.0

    def test_a_kind_tells_tasks_of_one_name_apart(self) -> None:
        found = results(score("STS-B", figure=10.0), reranking("STS-B", 20.0))
        assert (found["sts:STS-B"], found["reranking:sts-b"], found["sts:STS-B test"]) == (10.0, 20.0, 10.0)
        with pytest.raises(KeyError, match="'STS-B' is 2 of the tasks: sts:STS-B, reranking:STS-B"):
            found["STS-B"]


class TestByName:
    @pytest.mark.parametrize(
        ("scores", "names"),
        [
            ([score("STS12"), transfer("MR", 1.0)], ["STS12", "MR"]),
            ([score("STS-B", "dev"), score("STS-B"), score("STS12")], ["STS-B dev", "STS-B test", "STS12"]),
            ([score("STS-B"), reranking("STS-B", 1.0)], ["sts:STS-B", "reranking:STS-B"]),
            ([score("a"), score("b"), score("a")], ["sts:a test 1", "b", "sts:a test 3"]),
        ],
    )
    def test_no_more_than_tells_them_apart(self, scores: list[TaskScore], names: list[str]) -> None:
        found = results(*scores).by_name()
        assert list(found) == names
        assert list(found.values()) == [score.score for score in scores]


class TestAverage:
    def test_plain(self) -> None:
        assert results(score("a", figure=10.0), score("b", figure=40.0)).average == 25.0

    def test_undefined_with_one_that_is(self) -> None:
        assert results(score("a", figure=10.0), score("b", figure=None)).average is None

    def test_zero_is_a_figure(self) -> None:
        assert results(score("a", figure=0.0)).average == 0.0

    def test_for_each_kind(self) -> None:
        found = results(score("a", figure=10.0), transfer("MR", 80.0), score("b", figure=40.0), transfer("CR", None))
        assert found.averages == {"sts": 25.0, "transfer": None}

    def test_none_over_several_kinds(self) -> None:
        assert results(score("a", figure=10.0), transfer("MR", 80.0)).average is None
        assert results(transfer("MR", 80.0), transfer("CR", 60.0)).average == 70.0


class TestTable:
    def test_figures_and_average(self) -> None:
        text = shown(results(score("STS12", figure=72.3649), score("STS-B", figure=82.0)))
        assert text.splitlines()[0] == "a model  (STS: Spearman × 100, all)"
        assert rows(text) == [
            ["STS12", "test", "1,234 pairs", "72.36"],
            ["STS-B", "test", "1,234 pairs", "82.00"],
            ["average", "", "", "77.18"],
        ]
        assert "99 unique sentences in 1.2 s" in " ".join(text.split())

    def test_a_long_name_is_not_folded_to_the_width_of_the_table(self) -> None:
        model = "models/" + "x" * 60
        assert f"{model}  (STS: Spearman" in shown(results(score("a"), model=model))

    def test_names_that_look_like_markup(self) -> None:
        text = shown(results(score("[red]a[/red]"), model="[/b]:smile:"))
        assert "[/b]:smile:  (STS: Spearman" in text
        assert "[red]a[/red]" in text

    def test_one_task_needs_no_average(self) -> None:
        assert "average" not in shown(results(score("STS12")))

    def test_an_undefined_figure_shows_why(self) -> None:
        text = shown(results(score("a", figure=None, remark="undefined: all similarities are equal"), score("b")))
        assert "undefined: all similarities are equal" in text
        assert "average" in text

    def test_a_remark_on_other_aggregations_does_not_hide_the_figure(self) -> None:
        text = shown(results(score("a", figure=12.34, remark="undefined over subsets: …")))
        assert "12.34" in text
        assert "undefined" not in text

    @pytest.mark.parametrize(("head", "caption"), [(True, "pooling cls, head;"), (False, "pooling cls;")])
    def test_the_head_is_named_where_it_is_used(self, head: bool, caption: str) -> None:
        assert caption in " ".join(shown(results(score("a"), head=head)).split())


class TestTableOfSeveralKinds:
    FOUND = (
        transfer("MR", 80.0, setting="test"),
        score("STS12", figure=10.0),
        reranking("WikiQA", 33.333),
        transfer("CR", 90.0, setting="test"),
        score("STS-B", figure=20.0),
    )

    def test_a_section_for_each_kind_with_its_average_if_it_has_several_tasks(self) -> None:
        text = shown(results(*self.FOUND))
        assert text.splitlines()[0] == "a model"
        assert rows(text) == [
            ["MR", "test", "10,662 sentences", "transfer: accuracy", "80.00", "dev accuracy 99.00"],
            ["CR", "test", "10,662 sentences", "transfer: accuracy", "90.00", "dev accuracy 99.00"],
            ["transfer average", "", "", "", "85.00", ""],
            ["STS12", "test", "1,234 pairs", "STS: spearman", "10.00", ""],
            ["STS-B", "test", "1,234 pairs", "STS: spearman", "20.00", ""],
            ["STS average", "", "", "", "15.00", ""],
            ["WikiQA", "test", "243 queries", "reranking: map", "33.33", "mrr@10 33.33"],
        ]
        assert sum(line.startswith("├") for line in text.splitlines()) == 4  # before each average, behind each kind

    def test_one_kind_with_several_measures(self) -> None:
        text = shown(results(score("a", figure=10.0), score("b", figure=20.0, correlation="pearson")))
        assert text.splitlines()[0] == "a model"
        assert [row[3] for row in rows(text)] == ["STS: spearman", "STS: pearson", ""]

    def test_one_measure_is_named_above(self) -> None:
        text = shown(results(reranking("WikiQA", 33.333)))
        assert text.splitlines()[0] == "a model  (reranking: map × 100)"
        assert rows(text) == [["WikiQA", "test", "243 queries", "33.33", "mrr@10 33.33"]]

    def test_the_protocol_of_each_kind(self) -> None:
        assert shown(results(*self.FOUND)).splitlines()[-3:] == [
            "pooling cls; 99 unique sentences in 1.2 s",
            "transfer: setting test",
            "sts: correlation spearman, aggregation all",
        ]

    def test_the_protocol_of_tasks_that_differ(self) -> None:
        found = results(transfer("MR", 1.0, folds=10), transfer("CR", 1.0, folds=5), transfer("MPQA", 1.0, folds=10))
        assert shown(found).splitlines()[-2:] == ["MR, MPQA: folds 10", "CR: folds 5"]

    def test_the_protocol_of_one_task_in_two_ways(self) -> None:
        found = results(transfer("MR", 1.0, split="10-fold", folds=10), transfer("MR", 1.0, split="5-fold", folds=5))
        assert shown(found).splitlines()[-2:] == ["MR 10-fold: folds 10", "MR 5-fold: folds 5"]

    def test_what_was_left_out_is_told(self) -> None:
        text = shown(results(reranking("WikiQA", 33.333, "9 of 252 queries left out: no positive candidate")))
        assert text.splitlines()[-1] == "WikiQA: 9 of 252 queries left out: no positive candidate"

    def test_undefined(self) -> None:
        text = shown(results(reranking("x", None, "undefined: no query has a positive"), score("a"), score("b")))
        assert rows(text)[0][4] == "undefined: no query has a positive"
        assert rows(text)[-1] == ["STS average", "", "", "", "50.00"]


class TestJson:
    def test_all_of_each_score(self) -> None:
        found = json.loads(results(transfer("MR", 80.0, setting="fast"), score("STS12", figure=10.0)).to_json())
        assert found["scores"][0] == {
            "task": "MR",
            "kind": "transfer",
            "split": "test",
            "layout": "senteval",
            "count": 10_662,
            "unit": "sentences",
            "measure": "accuracy",
            "figures": {"accuracy": 80.0, "dev accuracy": 99.0},
            "data_hash": DATA_HASH,
            "protocol": {"setting": "fast"},
            "details": {},
            "dropped": 0,
            "remark": "",
            "score": 80.0,
        }
        assert (found["average"], found["averages"]) == (None, {"transfer": 80.0, "sts": 10.0})

    def test_round_trip(self, tmp_path: Path) -> None:
        found = results(score("a"), score("b", figure=None, remark="undefined: …"), model="modèle 中")
        found.write_json(tmp_path / "scores.json")
        text = (tmp_path / "scores.json").read_text(encoding="utf-8")
        assert read_sealed_json(tmp_path / "scores.json", "") == found.to_dict() == json.loads(found.to_json())
        assert "modèle 中" in text

    def test_nothing_outside_the_standard(self) -> None:
        with pytest.raises(ValueError, match="not JSON compliant"):
            results(score("a", figure=float("nan"))).to_json()

    def test_a_model_whose_name_is_not_text(self, tmp_path: Path) -> None:
        found = results(score("a"), model="m\udcff")
        found.write_json(tmp_path / "scores.json")
        assert json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["model"] == "m\udcff"

    def test_a_place_that_cannot_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"cannot be written \(Is a directory\)"):
            results(score("a")).write_json(tmp_path)
