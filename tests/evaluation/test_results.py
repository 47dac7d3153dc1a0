"""Results: looking up, averaging, showing and writing them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from nearer.errors import InputError
from nearer.evaluation import Results, TaskScore

PROTOCOL = {"correlation": "spearman", "aggregation": "all", "similarity": "cosine", "pooling": "cls", "head": False}


def score(task: str, split: str = "test", figure: float | None = 50.0, remark: str = "") -> TaskScore:
    figures = {"all": figure, "mean": None, "wmean": None}
    return TaskScore(task, split, "raw", 1234, figures, figures, {}, "0123456789abcdef", remark=remark)


def results(*scores: TaskScore, model: str = "a model", **protocol: object) -> Results:
    return Results(model, {**PROTOCOL, **protocol}, list(scores), 99, 1.25, {"nearer": "0"})


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
        with pytest.raises(KeyError, match=f"'{name}' is none of the tasks: STS12 test"):
            results(score("STS12"))[name]


class TestAverage:
    def test_plain(self) -> None:
        assert results(score("a", figure=10.0), score("b", figure=40.0)).average == 25.0

    def test_undefined_with_one_that_is(self) -> None:
        assert results(score("a", figure=10.0), score("b", figure=None)).average is None

    def test_zero_is_a_figure(self) -> None:
        assert results(score("a", figure=0.0)).average == 0.0


class TestTable:
    def test_figures_and_average(self) -> None:
        text = shown(results(score("STS12", figure=72.3649), score("STS-B", figure=82.0)))
        assert text.splitlines()[0] == "a model  (Spearman × 100, all)"
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
        assert rows == [
            ["STS12", "test", "1,234", "72.36"],
            ["STS-B", "test", "1,234", "82.00"],
            ["average", "", "", "77.18"],
        ]
        assert "99 unique sentences in 1.2 s" in " ".join(text.split())

    def test_a_long_name_is_not_folded_to_the_width_of_the_table(self) -> None:
        model = "models/" + "x" * 60
        assert f"{model}  (Spearman" in shown(results(score("a"), model=model))

    def test_names_that_look_like_markup(self) -> None:
        text = shown(results(score("[red]a[/red]"), model="[/b]:smile:"))
        assert "[/b]:smile:  (Spearman" in text
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


class TestJson:
    def test_round_trip(self, tmp_path: Path) -> None:
        found = results(score("a"), score("b", figure=None, remark="undefined: …"), model="modèle 中")
        found.write_json(tmp_path / "scores.json")
        text = (tmp_path / "scores.json").read_text(encoding="utf-8")
        assert json.loads(text) == found.to_dict()
        assert text == found.to_json() + "\n"
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
