"""Recipes: those that ship, one's own, and every mistake named at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nearer.errors import SettingError
from nearer.methods import METHODS
from nearer.training.recipes import FOLDER, load_recipe, parse_overrides, recipe_names, summary


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_ships_is_sound_and_says_how_to_run_it(name: str) -> None:
    recipe = load_recipe(name)
    first = (FOLDER / f"{name}.yaml").read_text().splitlines()[0]
    assert first.startswith(f"# nearer train {name} ")
    assert summary(name)
    assert recipe.training.method in METHODS


@pytest.mark.parametrize(
    ("name", "batch", "rate", "epochs", "pooling"),
    [
        ("simcse-bert-base", 64, 3e-5, 1, "cls_before_head"),
        ("simcse-bert-large", 64, 1e-5, 1, "cls_before_head"),
        ("simcse-roberta-base", 512, 1e-5, 1, "cls_before_head"),
        ("simcse-roberta-large", 512, 3e-5, 1, "cls_before_head"),
        ("simcse-supervised-bert-base", 512, 5e-5, 3, "cls"),
        ("simcse-supervised-bert-large", 512, 1e-5, 3, "cls"),
        ("simcse-supervised-roberta-base", 512, 5e-5, 3, "cls"),
        ("simcse-supervised-roberta-large", 512, 1e-5, 3, "cls"),
    ],
)
def test_the_papers_numbers(name: str, batch: int, rate: float, epochs: int, pooling: str) -> None:
    """SimCSE, Table A.1 and Appendix A."""
    recipe = load_recipe(name)
    training = recipe.training
    assert (training.batch_size, training.learning_rate, training.epochs) == (batch, rate, epochs)
    assert (training.pooling, training.head, training.max_length) == (pooling, True, 32)
    assert (training.warmup, training.weight_decay, training.clip) == (0, 0, 1)
    assert training.evaluate_every == (250 if "supervised" in name else 125)
    assert recipe.method.temperature == 0.05


def test_all_mistakes_are_told_at_once_with_the_nearest_names() -> None:
    wrong = {"temprature": 0.1, "batch_size": 1, "learning_rate": "fast", "pooling": "maen", "similarity": "l2"}
    with pytest.raises(SettingError) as error:
        load_recipe("simcse-bert-base", wrong)
    message = str(error.value)
    assert "temprature: no such setting, did you mean 'temperature'?" in message
    assert "batch_size: " in message
    assert "learning_rate: " in message
    assert "Did you mean 'mean'?" in message
    assert "similarity: " in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: simcse\nmodel: [", "cannot be read .not YAML: "),
        ("- a\n- b\n", "a recipe is a list of"),
        ("model: x\n", "method: None is not one of"),
        ("method: simcse\nmodel: x\n", "pooling: Field required"),
        ("", "a recipe is a list of"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(SettingError, match=message):
        load_recipe(path)


def test_unknown_recipes_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="Did you mean 'simcse-bert-base'"):
        load_recipe("simcse-bert-bas")
    with pytest.raises(SettingError, match="is missing"):
        load_recipe(tmp_path / "none.yaml")


def test_overrides_are_read_as_yaml() -> None:
    parsed = parse_overrides(["a=1", "b=2e-5", "c=[x, y]", "d=true", "e="])
    assert parsed == {"a": 1, "b": "2e-5", "c": ["x", "y"], "d": True, "e": None}
    for wrong in ("a", "=1", "a=["):
        with pytest.raises(SettingError, match="--set"):
            parse_overrides([wrong])
    recipe = load_recipe("simcse-bert-base", parse_overrides(["learning_rate=2e-5", "select_on=a.tsv, stsb-dev"]))
    assert recipe.training.learning_rate == 2e-5
    assert recipe.training.select_on == ["a.tsv", "stsb-dev"]


def test_a_recipe_survives_being_written_and_read(tmp_path: Path) -> None:
    recipe = load_recipe("simcse-supervised-bert-base")
    (tmp_path / "copy.yaml").write_text(yaml.safe_dump(recipe.to_dict()))
    copy = load_recipe(tmp_path / "copy.yaml")
    assert (copy.training, copy.method) == (recipe.training, recipe.method)
