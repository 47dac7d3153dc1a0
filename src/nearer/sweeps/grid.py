"""The grid of a sweep: which settings take which values. Checked as a whole before anything runs."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.errors import SettingError
from nearer.sweeps.construction import ConstructionPlan, is_construction, plan_construction, split
from nearer.training.recipes import Recipe, load_recipe
from nearer.typed_files import Unreadable, parse_yaml

LONGEST_NAME = 150


@dataclass(frozen=True)
class PlannedRun:
    """A point of the grid with a seed, the recipe that both make, and what its data is built by, if it is built."""

    point: dict[str, Any]
    seed: int
    recipe: Recipe
    construction: ConstructionPlan | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the run, as JSON has them."""
        built = {} if self.construction is None else self.construction.named()
        settings: dict[str, Any] = plain({**self.recipe.to_dict(), **built})
        return settings


def parse_grid(pairs: Sequence[str]) -> dict[str, list[Any]]:
    """`key=value,value` as given to --grid; values are read as YAML, so one that is a list is written [a, b]."""
    grid: dict[str, list[Any]] = {}
    for pair in pairs:
        key, equals, values = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise SettingError(f"--grid: {pair!r} is not of the form key=value,value.")
        if key in grid:
            raise SettingError(f"--grid: {key} is given twice; name all its values at once.")
        try:
            grid[key] = parse_yaml(f"[{values}]")
        except Unreadable as error:
            raise SettingError(f"--grid: the values of {key!r} cannot be read ({error}).") from None
    return grid


def plan_runs(
    recipe: str | Path, grid: Mapping[str, Sequence[Any]], seeds: Sequence[int], settings: Mapping[str, Any]
) -> tuple[dict[str, list[Any]], list[PlannedRun]]:
    """The grid with its values as the recipe understands them (2e-5 and 0.00002 are one), and all runs in order."""
    _check_form(grid, seeds, settings)
    first = {key: values[0] for key, values in grid.items()}
    understood: dict[str, list[Any]] = {}
    for key, values in grid.items():
        understood[key] = [_understood(recipe, {**settings, **first, key: value}, key) for value in values]
        for number, value in enumerate(understood[key]):
            if value in understood[key][:number]:
                raise SettingError(f"grid: {key} has the value {shown(value)} twice.")
    runs = []
    for combination in itertools.product(*understood.values()):
        point = dict(zip(understood, combination, strict=True))
        for seed in seeds:
            trained, built = split({**settings, **point})
            plan = plan_construction(built) if built else None
            runs.append(PlannedRun(point, seed, load_recipe(recipe, {**trained, "seed": seed}), plan))
    return understood, runs


def _understood(recipe: str | Path, settings: Mapping[str, Any], key: str) -> Any:
    """The value of a setting as the recipe, or construction, understands it."""
    trained, built = split(settings)
    if not is_construction(key):
        return plain(load_recipe(recipe, trained).to_dict())[key]
    named = plan_construction(built).named()
    return plain(named.get(key, built[key]))


def _check_form(grid: Mapping[str, Sequence[Any]], seeds: Sequence[int], settings: Mapping[str, Any]) -> None:
    if not grid:
        raise SettingError(
            "grid: is empty; name a setting and its values, such as learning_rate=1e-5,3e-5.", argument="grid"
        )
    if "seed" in grid or "seed" in settings:
        raise SettingError("seed: every point is run with every seed; name them, such as 0,1,2.", argument="seeds")
    for key, values in grid.items():
        if key in settings:
            raise SettingError(f"grid: {key} is in the grid and fixed to {shown(settings[key])} as well; drop one.")
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise SettingError(f"grid: {key} needs a list of values ({values!r} given).")
        if not values:
            raise SettingError(f"grid: {key} has no values.")
    if not seeds or len(set(seeds)) != len(seeds):
        raise SettingError(f"seeds: {list(seeds)} is empty or repeats one.")


def shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def point_name(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={shown(value)}" for key, value in point.items())


def folder_name(point: Mapping[str, Any]) -> str:
    """A name that every file system takes; what it cannot say or tell apart is left to a digest at its end."""
    name = ",".join(f"{key}={shown(value)}" for key, value in sorted(point.items())) or "recipe"
    safe = re.sub(r"[^a-z0-9._+=,-]+", "_", name.lower())
    if safe == name and len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.blake2b(json.dumps(plain(point), sort_keys=True).encode(), digest_size=4).hexdigest()
    return f"{safe[:LONGEST_NAME].strip('_')}-{digest}"


def plain(value: Any) -> Any:
    """As it comes back from JSON, so that what is planned and what was recorded can be compared."""
    return json.loads(json.dumps(value, default=str))
