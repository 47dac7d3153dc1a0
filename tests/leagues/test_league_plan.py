"""LEAGUE.yaml: what it may say, and that every mistake is told in one line with its line and its setting."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nearer.errors import SettingError
from nearer.leagues.conclusion import find_published
from nearer.leagues.entries import enter_methods
from nearer.leagues.plan import LeaguePlan, Range, read_league
from nearer.leagues.trials import choose_trials, draw_points

WHOLE: dict[str, Any] = {
    "corpus": "wiki.txt",
    "backbones": ["wiki-mini"],
    "methods": {"simcse": {"recipe": "simcse-wiki-mini", "tune": {"temperature": [0.03, 0.1, 0.2]}}},
    "seeds": [3, 1],
    "steps": 10,
    "trials": 3,
    "select_on": "everyday",
    "evaluate_every": 5,
    "test_on": "everyday,stsb",
}


def write(folder: Path, **changes: Any) -> Path:
    values = {**WHOLE, **changes}
    path = folder / "league.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in values.items() if value is not None}, sort_keys=False))
    return path


def test_what_is_not_said(tmp_path: Path) -> None:
    plan = read_league(write(tmp_path)).plan
    assert plan.backbones == {"wiki-mini": "wiki-mini"}
    assert (plan.baseline_method, plan.tuning_seed, plan.draw_seed) == ("simcse", 3, 0)
    assert plan.test_on == ["everyday", "stsb"]


def simcse(**changes: Any) -> dict[str, Any]:
    return {"simcse": {**WHOLE["methods"]["simcse"], **changes}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stepz": 3}, "stepz: no such setting, did you mean 'steps'?"),
        ({"steps": None}, "league.yaml: steps: is missing."),  # and has no line
        ({"steps": 0}, "steps: Input should be greater than or equal to 1 (0 given)."),
        ({"seeds": [1, 1]}, "seeds: repeats one ([1, 1] given)."),
        ({"baseline": "sincse"}, "baseline: 'sincse' is none of the methods."),
        ({"methods": {"a b": "simcse-wiki-mini"}}, "methods: 'a b' is no name for a folder"),
        ({"methods": {"one": "simcse-wiki-mini", "One": "simcse-wiki-mini"}}, "two names differ in capitals alone"),
        ({"methods": {"own": {"settings": {}}}}, "methods.own: name a recipe"),
        ({"methods": simcse(recipee="x")}, "methods.simcse.recipee: no such setting, did you mean 'recipe'?"),
        ({"methods": simcse(tune={"temperature": []})}, "methods.simcse.tune.temperature: has no values"),
        (
            {"methods": simcse(tune={"temperature": {"from": 0.1, "to": 0.05}})},
            "methods.simcse.tune.temperature: from 0.1 to 0.05 holds nothing",
        ),
        (
            {"methods": simcse(tune={"temperature": {"from": 0, "to": 1, "scale": "log"}})},
            "scale log needs ends above 0",
        ),
        ({"methods": simcse(tune={"temperature": {"form": 0, "to": 1}})}, "tune.temperature: from: Field required"),
        (
            {"methods": simcse(settings={"max_steps": 5})},
            "methods.simcse.settings.max_steps: is the same for all methods; the league's steps says it.",
        ),
        ({"methods": simcse(settings={"temperature": 0.1})}, "settings.temperature: is tuned as well; drop one"),
        ({"tune": {"temperature": [0.1]}}, "tune.temperature: not every method has it; name it below the methods."),
        ({"methods": simcse(start={"bert": "x"})}, "start.bert: is none of the backbones (wiki-mini)."),
        ({"backbones": ["a/x", "b/x"]}, "backbones: two models are named x; write them as `name: model` lines"),
        (
            {"backbones": {"a": "wiki-mini", "b": "wiki-mini"}, "methods": simcse(recipe={"a": "simcse-wiki-mini"})},
            "methods.simcse.recipe: none for the backbone b.",
        ),
    ],
)
def test_mistakes_of_the_file(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError) as told:
        read_league(write(tmp_path, **changes))
    assert message in str(told.value)
    check_line(str(told.value), tmp_path)


def check_line(told: str, folder: Path) -> None:
    """That the line which a message names has the setting in it that the message names."""
    assert "\n" not in told
    if found := re.search(r"line (\d+): ([\w.-]+)", told):
        line = (folder / "league.yaml").read_text().splitlines()[int(found[1]) - 1]
        assert line.split(":")[0].strip() in found[2].split(".")


TEMPERATURES: dict[str, Any] = {"tune": {"student_temperature": [0.1, 0.2, 0.3]}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": {"a": "simcse-wiki-mimi"}}, "methods.a: recipe: there is none named 'simcse-wiki-mimi'"),
        ({"methods": simcse(settings={"temperatur": 1})}, "temperatur: no such setting, did you mean 'temperature'?"),
        ({"methods": simcse(tune={"temperature": [0.1, -1]})}, "methods.simcse.tune.temperature: simcse: temperature:"),
        ({"trials": 4, "methods": simcse(tune={"temperature": [0.1, 0.05]})}, "gives 2 different points with the"),
        ({"methods": {"a": "simcse-wiki-mini"}}, "methods.a: gives 1 different points"),
        ({"methods": simcse(settings={"data": "triplets"})}, "methods.simcse: learns from triplets; name their file"),
        ({"methods": simcse(settings={"data": "debiased"})}, "methods.simcse: SimCSE learns from"),
        (
            {"methods": simcse(method="no_such_module:Own")},
            "methods.simcse: no_such_module:Own cannot be imported (ModuleNotFoundError: No module named",
        ),
        ({"methods": simcse(method="json:dumps")}, "json:dumps is no subclass of nearer.methods.Method."),
        (
            {
                "select_on": "held-out",
                "methods": {
                    **WHOLE["methods"],
                    "pairs": {"recipe": "simcse-pairs-wiki-mini", "corpus": "p.tsv", "tune": {"temperature": [1, 2]}},
                },
            },
            "select_on: held-out is another dev set for each text, and for each teacher whose order a method learns; "
            "these methods have 2 of them",
        ),
        (
            {
                "select_on": "held-out",
                "methods": {**WHOLE["methods"], "ranks": {"recipe": "rankcse-wiki-mini", **TEMPERATURES}},
            },
            "these methods have 2 of them",
        ),
    ],
)
def test_mistakes_that_recipes_and_methods_know_of(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = read_league(write(tmp_path, **changes))
    with pytest.raises(SettingError) as told:
        enter_methods(file)
    assert message in str(told.value)
    assert str(told.value).startswith(f"{file.path}: line ")
    check_line(str(told.value), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "a league is a list of `setting: value` lines."),
        ("steps: [", "cannot be read (not YAML"),
        ("steps: 1\nseeds: [0]\nsteps: 2\n", "line 3: steps: is there already, in line 1."),
    ],
)
def test_what_is_no_league(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "league.yaml"
    path.write_text(text)
    with pytest.raises(SettingError) as told:
        read_league(path)
    assert message in str(told.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"missing.yaml: cannot be read \(No such file or directory\)"):
        read_league(tmp_path / "missing.yaml")


class TestTrials:
    def test_the_recipe_first_and_each_point_once(self, tmp_path: Path) -> None:
        [entry] = enter_methods(read_league(write(tmp_path)))
        assert entry.trials[0] == {"temperature": 0.05}
        assert len(entry.trials) == 3
        assert {trial["temperature"] for trial in entry.trials[1:]} < {0.03, 0.1, 0.2}

    def test_more_trials_begin_with_those_that_were_there(self, tmp_path: Path) -> None:
        before = enter_methods(read_league(write(tmp_path)))[0].trials
        after = enter_methods(read_league(write(tmp_path, trials=4)))[0].trials
        assert after[:3] == before

    def test_another_method_changes_nothing(self, tmp_path: Path) -> None:
        alone = enter_methods(read_league(write(tmp_path)))[0].trials
        methods = {"other": WHOLE["methods"]["simcse"], **WHOLE["methods"]}
        both = enter_methods(read_league(write(tmp_path, methods=methods)))
        assert both[1].trials == alone

    def test_values_are_compared_as_the_recipe_has_them(self, tmp_path: Path) -> None:
        methods = simcse(tune={"learning_rate": ["3e-5", 0.00003, "1e-4"]})
        [entry] = enter_methods(read_league(write(tmp_path, trials=2, methods=methods)))
        assert entry.trials == [{"learning_rate": 3e-5}, {"learning_rate": 1e-4}]

    @given(seed=st.integers(0, 1000), scale=st.sampled_from(["linear", "log"]), whole=st.booleans())
    def test_points_lie_in_their_ranges(self, seed: int, scale: Any, whole: bool) -> None:
        choices = {"a": Range(low=2, high=40, scale=scale, whole=whole), "b": ["x", "y"]}
        points = list(itertools.islice(draw_points(choices, "name", seed), 20))
        assert all(2 <= point["a"] <= 40 and point["b"] in ("x", "y") for point in points)
        assert all(points.count(point) == 1 for point in points)
        assert not whole or all(isinstance(point["a"], int) for point in points)
        assert points == list(itertools.islice(draw_points(choices, "name", seed), 20))

    def test_log_draws_equal_factors_alike(self) -> None:
        choices = {"a": Range(low=1e-6, high=1.0, scale="log")}
        drawn = [math.log10(point["a"]) for point in itertools.islice(draw_points(choices, "name", 0), 600)]
        assert sum(-6 <= value < -3 for value in drawn) == pytest.approx(300, abs=50)

    def test_a_range_of_few_whole_numbers_ends(self) -> None:
        found = list(draw_points({"a": Range(low=1, high=3, whole=True)}, "name", 0))
        assert sorted(point["a"] for point in found) == [1, 2, 3]
        with pytest.raises(SettingError, match=r"here: gives 3 different points"):
            choose_trials({"a": 2}, iter(found), 4, "here")


def test_methods_that_follow_the_same_teachers_have_one_dev_set(tmp_path: Path) -> None:
    methods = {
        "ranks": {"recipe": "rankcse-wiki-mini", **TEMPERATURES},
        "also": {"recipe": "rankcse-wiki-mini", "settings": {"keep_diagonal": True}, **TEMPERATURES},
    }
    file = read_league(write(tmp_path, select_on="held-out", methods=methods, baseline="ranks"))
    assert len(enter_methods(file)) == 2


def test_the_league_of_the_benchmarks_can_be_entered() -> None:
    file = read_league(Path(__file__).parents[2] / "benchmarks" / "league-mobilebert.yaml")
    entries = enter_methods(file)
    assert all(len(entry.trials) == 4 for entry in entries)
    assert {entry.settings["max_steps"] for entry in entries} == {1000}
    assert {entry.facts.name for entry in entries} >= {"simcse", "rankcse", "rankencoder", "debcse", "refine"}


def test_figures_were_published_of_all_that_the_benchmarks_league_has() -> None:
    """A name that is misspelt would leave its method without a published figure, and nobody would notice."""
    file = read_league(Path(__file__).parents[2] / "benchmarks" / "league-mobilebert.yaml")
    titles = {entry.method: entry.facts.title for entry in enter_methods(file)}
    named = {name: file.plan.methods[name].published or title for name, title in titles.items()}
    found = {name: {row.kind for row in find_published(called, "BERT-base")} for name, called in named.items()}
    assert {name for name, kinds in found.items() if "sts" not in kinds} == {"tsdae"}  # no paper here has its average


def test_the_file_of_the_documents_can_be_read(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs" / "league.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```yaml\n(.*?)```", document, re.DOTALL)
    path = tmp_path / "league.yaml"
    path.write_text(text.replace("my_package.shorter:Shorter", "nearer.methods:SimCSE"))
    assert [entry.method for entry in enter_methods(read_league(path))] == ["simcse", "rankcse", "mine"]
    settings = re.findall(r"^\| (`.*?`) \|", document, re.MULTILINE)
    named = {name for cell in settings for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(LeaguePlan.model_fields) - {"methods"}
