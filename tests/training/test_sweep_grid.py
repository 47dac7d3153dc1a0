"""The grid of a sweep: how it is read, what the recipe makes of it, and how its points are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nearer.errors import SettingError
from nearer.sweeps.grid import folder_name, parse_grid, plan_runs


class TestGrid:
    def test_values_are_yaml(self) -> None:
        assert parse_grid(["a=0.5,null, true", "b = [x, y],z/1", "c=1"]) == {
            "a": [0.5, None, True],
            "b": [["x", "y"], "z/1"],
            "c": [1],
        }

    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            (["a"], "'a' is not of the form"),
            (["=1"], "'=1' is not of the form"),
            (["a=1", "a=2"], "a is given twice"),
            (["a=[1"], "cannot be read"),
            (["a=1,,2"], "cannot be read"),
        ],
    )
    def test_what_cannot_be_read(self, pairs: list[str], message: str) -> None:
        with pytest.raises(SettingError, match=f"--grid: .*{message}"):
            parse_grid(pairs)

    def test_values_are_those_the_recipe_understands(self, recipe: Path) -> None:
        grid, runs = plan_runs(recipe, {"learning_rate": ["2e-5"], "select_on": ["a.tsv,b.tsv"]}, [7], {})
        assert grid == {"learning_rate": [2e-5], "select_on": [["a.tsv", "b.tsv"]]}
        assert [(run.point["learning_rate"], run.settings["seed"]) for run in runs] == [(2e-5, 7)]

    def test_folder_names_are_readable_safe_and_distinct(self) -> None:
        assert folder_name({"b": 0.025, "a": 2e-5}) == "a=2e-05,b=0.025"
        points = [
            {"model": "a/b"},
            {"model": "a_b"},
            {"model": "A_b"},
            {"model": "a b"},
            {"model": ["a", "b"]},
            {"model": ["a,b"]},
            {"model": None},
            {"model": ".."},
            {"model": "x" * 300},
            {"model": "x" * 300 + "y"},
        ]
        names = [folder_name(point) for point in points]
        assert len({name.lower() for name in names}) == len(points)
        assert all(re.fullmatch(r"model=[a-z0-9._+=,-]{0,200}", name) for name in names)
        assert names[1] == "model=a_b"
