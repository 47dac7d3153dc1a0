"""Recipes whose training steps are measured beside SimCSE's: their methods, on the bench's model and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.models import random_generator
from nearer.errors import SettingError
from nearer.methods import known_methods
from nearer.training.recipes import Recipe, load_recipe

WHAT = "of each recipe its method and that method's settings; model, batch and the tokens of a sentence are the bench's"


@dataclass(frozen=True)
class BenchRecipes:
    """By name, the settings to train with; and what differs from the recipes, in words."""

    settings: dict[str, dict[str, Any]]
    notes: list[str]


def load_sentence_recipes(names: Sequence[str]) -> list[Recipe]:
    """Recipes by name or file. Those that learn from more than sentences are an error, which names all of them."""
    recipes = [load_recipe(name) for name in dict.fromkeys(names)]
    refused = [f"{recipe.name} needs {needs}" for recipe in recipes if (needs := find_missing(recipe)) is not None]
    if refused:
        raise SettingError(
            f"--recipes: {'; '.join(refused)}; leave out what needs more than sentences "
            "(--ranking measures RankCSE and RankEncoder, --lists scored lists)."
        )
    return recipes


def find_missing(recipe: Recipe) -> str | None:
    """What a recipe needs and the bench does not have, if there is anything."""
    if recipe.training.data != "sentences":
        return f"data={recipe.training.data}"
    facts = known_methods()[recipe.training.method].facts
    if facts.teachers in ("one", "some") or getattr(recipe.method, "teachers", None):
        return "teachers"
    return None if "sentences" in facts.needs else facts.needs


def prepare_recipes(recipes: Sequence[Recipe], model: Path, scratch: Path) -> BenchRecipes:
    """With a generator of random weights for those that name one: what it is worth does not change the time.

    model: the folder of the bench's model, whose width, half of whose layers and whose vocabulary the generator has.
    """
    settings = {recipe.name: recipe.to_dict() for recipe in recipes}
    notes = [f"recipes: {WHAT}"] if recipes else []
    generated = [name for name, values in settings.items() if values.get("generator") is not None]
    if generated:
        generator, described = random_generator(model, scratch / "generator")
        notes += [
            f"{name}: in the place of its generator ({settings[name]['generator']}) stands {described}"
            for name in generated
        ]
        for name in generated:
            settings[name]["generator"] = str(generator)
    return BenchRecipes(settings, notes)
