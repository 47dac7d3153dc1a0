"""The commands recipes and settings: what can be set is said by the program itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from nearer.methods import METHODS
from nearer.teachers import TeacherSettings
from nearer.training.recipes import described_recipe, recipe_names, settings_of
from nearer.training.settings import TrainingSettings

Nearer = Callable[..., Any]
MODELS: list[type[BaseModel]] = [TrainingSettings, TeacherSettings, *(method.Settings for method in METHODS.values())]


@pytest.mark.parametrize("model", MODELS)
def test_every_setting_says_what_it_does(model: type[BaseModel]) -> None:
    assert [name for name, field in model.model_fields.items() if len(field.description or "") < 10] == []


def test_recipes_are_listed(nearer: Nearer) -> None:
    done = nearer("recipes")
    assert done.code == 0
    assert "simcse-bert-base\n    Unsupervised SimCSE" in done.out
    assert done.out.endswith("nearer recipes NAME shows one with its settings.\n")


class TestOneRecipe:
    def test_all_that_a_reader_asks(self, nearer: Nearer) -> None:
        done = nearer("recipes", "rankcse-listmle-bert-base")
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        assert lines[0] == "rankcse-listmle-bert-base"
        assert "  for         RankCSE with ListMLE on BERT-base (Table 7), taught by two SimCSE models." in lines
        assert "  command     nearer train rankcse-listmle-bert-base --corpus wiki.txt --data data/senteval" in lines
        assert "  model       bert-base-uncased" in lines
        assert "  learns from sentences" in lines
        [weights] = [line for line in lines if "teacher_weights" in line]
        assert "[1, 2]" in weights
        assert "how much each teacher counts" in weights  # the setting's meaning, and the recipe's own comment
        assert "α = 1/3 for the base teacher" in done.out
        assert "unsup-simcse-bert-large-uncased" in done.out  # lines below `teachers:`
        assert lines[-1].endswith("nearer settings rankcse")

    def test_the_loops_meaning_is_not_taken_for_a_teachers(self) -> None:
        """Both have a setting max_length."""
        meanings = {name: meaning for name, _, meaning in described_recipe("rankcse-wiki-mini").settings}
        assert meanings["max_length"].startswith(str(TrainingSettings.model_fields["max_length"].description))

    @pytest.mark.parametrize("name", recipe_names())
    def test_every_recipe_that_ships(self, name: str) -> None:
        shown = described_recipe(name)
        assert shown.command.startswith(f"nearer train {name} --")
        assert shown.purpose
        assert all(value and meaning for _, value, meaning in shown.settings)
        assert {setting for setting, _, _ in shown.settings} <= set(shown.recipe.to_dict())

    def test_ones_own(self, nearer: Nearer, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text("method: simcse\nmodel: wiki-mini\npooling: mean\nhead: false\nepochs: 2  # twice is enough\n")
        done = nearer("recipes", path)
        assert done.code == 0, done.err
        assert f"  command     nearer train {path} --corpus FILE" in done.out
        assert "how often training goes through the whole corpus – twice is enough" in done.out

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("simcse-wik", "recipe: there is none named 'simcse-wik'. Did you mean 'simcse-wiki-mini'?"),
            ("q", "recipe: there is none named 'q'. `nearer recipes` lists them."),
            ("none.yaml", "none.yaml: is missing; name a recipe of `nearer recipes`, or mend the file."),
        ],
    )
    def test_names_that_are_none(self, nearer: Nearer, name: str, told: str) -> None:
        assert nearer("recipes", name).error == told


class TestSettings:
    def test_a_method_and_what_all_methods_have(self, nearer: Nearer) -> None:
        done = nearer("settings", "simcse")
        assert done.code == 0, done.err
        rows = {cells[0]: cells[1:] for line in done.out.splitlines() if len(cells := _cells(line)) == 4}
        meaning = METHODS["simcse"].Settings.model_fields["mlm_rate"].description
        assert rows["mlm_rate"] == ["number, above 0, below 1", "0.15", meaning]
        assert rows["max_steps"][:2] == ["whole number or null, at least 1", "null"]
        assert rows["learning_rate"][:2] == ["number, above 0, at most 1", "3e-05"]
        assert rows["model"][1] == "required"
        assert rows["similarity"][0] == "cosine, dot"
        assert "teacher_weights" not in rows

    def test_without_a_method_there_are_all(self, nearer: Nearer) -> None:
        done = nearer("settings")
        assert done.code == 0, done.err
        for model in MODELS:
            assert [name for name in model.model_fields if f"│ {name} " not in done.out] == []

    def test_headings(self) -> None:
        assert list(settings_of("debcse")) == ["debcse", "every method"]
        assert list(settings_of("refine")) == ["refine", "every method", "a teacher, as {model: NAME, …}"]

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("rankcs", "method: there is none named 'rankcs'; did you mean 'rankcse'?"),
            (
                "xyz",
                f"method: there is none named 'xyz'; there are {', '.join(METHODS)}.",
            ),
        ],
    )
    def test_methods_that_are_none(self, nearer: Nearer, name: str, told: str) -> None:
        assert nearer("settings", name).error == told


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│").split("│")]
