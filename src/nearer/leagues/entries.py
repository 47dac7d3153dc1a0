"""Who takes part: a method on a backbone, with its recipe, its text and its trials, all checked before anything runs.

A method from outside the package is named by `package.module:Class`. It is imported from what is installed or from the
folder of the league's file, so a league's file can run code: run only those that you trust.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.errors import NearerError, SettingError, first_line
from nearer.evaluation.held_out_task import NAME as HELD_OUT
from nearer.leagues.plan import FIXED, LeagueFile
from nearer.leagues.trials import choose_trials, draw_points, listed_values
from nearer.methods import Method, known_methods, register_method
from nearer.methods.facts import MethodFacts
from nearer.sweeps.grid import PlannedRun, plain
from nearer.training.recipes import Recipe, check_recipe, load_recipe
from nearer.training.selection import asked_about_by


@dataclass(frozen=True)
class Outside:
    """A method from outside the package: its import path, and the folder in which it may lie."""

    path: str
    folder: str

    def register(self) -> type[Method]:
        """Known to recipes from here on; also called in workers."""
        module_name, _, class_name = self.path.partition(":")
        if self.folder not in sys.path:
            sys.path.append(self.folder)
        try:
            found = getattr(importlib.import_module(module_name), class_name)
        except Exception as error:  # whatever their code raises
            raise SettingError(
                f"{self.path} cannot be imported ({type(error).__name__}: {first_line(error)})."
            ) from error
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise SettingError(f"{self.path} is no subclass of nearer.methods.Method.")
        return register_method(found)


@dataclass(frozen=True)
class Entry:
    """A method on a backbone. trials: the points that are tried; settings: everything that they do not say."""

    method: str
    backbone: str
    facts: MethodFacts
    settings: dict[str, Any]
    trials: list[dict[str, Any]]
    corpus: str
    columns: list[str] | None
    outside: Outside | None

    @property
    def name(self) -> str:
        return f"{self.method} on {self.backbone}"

    @property
    def folder(self) -> Path:
        """Below the league's own."""
        return Path(self.backbone) / self.method

    def plan(self, point: Mapping[str, Any], seed: int) -> PlannedRun:
        return PlannedRun(dict(point), seed, check_recipe({**self.settings, **point, "seed": seed}, self.method))

    @property
    def recipe(self) -> Recipe:
        return check_recipe(self.settings, self.method)


def enter_methods(league: LeagueFile) -> list[Entry]:
    """Backbone by backbone, in the file's order."""
    plan = league.plan
    entries = [_enter(league, name, backbone) for backbone in plan.backbones for name in plan.methods]
    _check_dev(league, entries)
    return entries


def _enter(league: LeagueFile, name: str, backbone: str) -> Entry:
    plan, method = league.plan, league.plan.methods[name]
    where = league.where("methods", name)
    recipe = method.recipe[backbone] if isinstance(method.recipe, dict) else method.recipe
    outside = None
    try:
        if method.method is not None and ":" in method.method:
            outside = Outside(method.method, str(league.path.resolve().parent))
        given: dict[str, Any] = {**plan.settings, **method.settings, **_fixed(league, name, backbone)}
        if method.teachers is not None:
            given["teachers"] = method.teachers
        if method.method is not None:
            given["method"] = outside.register().facts.name if outside else method.method
        base = check_recipe(given, name) if recipe is None else load_recipe(recipe, given)
        facts = known_methods()[base.training.method].facts
    except NearerError as error:
        raise SettingError(f"{where}: {error}") from None
    _check_data(league, name, base, facts)
    settings = plain(base.to_dict())
    choices = {**plan.tune, **method.tune}
    tune = ("methods", name, "tune") if method.tune else ("tune",) if plan.tune else ("methods", name)

    def understood(point: Mapping[str, Any]) -> dict[str, Any]:
        """The values as the recipe has them: 2e-5 and 0.00002 are one."""
        try:
            whole = plain(check_recipe({**settings, **point}, name).to_dict())
        except SettingError as error:
            raise SettingError(f"{league.where(*tune, *list(point)[:1])}: {error}") from None
        return {key: whole[key] for key in point}

    for key, value in listed_values(choices):
        understood({key: value})
    points = (understood(point) for point in draw_points(choices, name, plan.draw_seed))
    own = {key: settings[key] for key in choices}
    trials = choose_trials(own, points, plan.trials, league.where(*tune))
    return Entry(
        method=name,
        backbone=backbone,
        facts=facts,
        settings=settings,
        trials=trials,
        corpus=method.corpus or plan.corpus,
        columns=method.columns if method.corpus else plan.columns,
        outside=outside,
    )


def _fixed(league: LeagueFile, name: str, backbone: str) -> dict[str, Any]:
    """What is the same for all methods, as settings of a run. Tests are the league's own, behind the last step."""
    plan = league.plan
    fixed = {
        "max_steps": plan.steps,
        "epochs": plan.steps,  # of a text with a single batch it takes so many
        "seed": plan.tuning_seed,
        "select_on": plan.select_on,
        "watch_on": [],
        "held_out": plan.held_out,
        "evaluate_every": plan.evaluate_every,
        "test_on": [],
        "model": plan.methods[name].start.get(backbone, plan.backbones[backbone]),
    }
    assert fixed.keys() | {"method"} == FIXED.keys()
    return fixed


def _check_data(league: LeagueFile, name: str, recipe: Recipe, facts: MethodFacts) -> None:
    """That the method gets the records that it learns from, as far as the file can say."""
    plan, kind = league.plan, recipe.training.data
    if kind not in facts.data:
        where = league.where("methods", name)
        raise SettingError(f"{where}: {facts.title} learns from {' or '.join(facts.data)}, not from {kind}.")
    if plan.methods[name].corpus is None and kind != plan.settings.get("data", "sentences"):
        raise SettingError(f"{league.where('methods', name)}: learns from {kind}; name their file (corpus: FILE).")


def _check_dev(league: LeagueFile, entries: Sequence[Entry]) -> None:
    """Records that are held out are one dev set only where all methods read one text in one way."""
    if HELD_OUT not in league.plan.select_on:
        return
    ways = {
        (
            entry.corpus,
            *(entry.columns or ()),
            entry.settings["data"],
            entry.settings["duplicates"],
            asked_about_by(entry.plan(point, 0).recipe),
        )
        for entry in entries
        for point in entry.trials or [{}]
    }
    if len(ways) > 1:
        raise SettingError(
            f"{league.where('select_on')}: {HELD_OUT} is another dev set for each text, and for each teacher whose "
            f"order a method learns; these methods have {len(ways)} of them; name a task that is the same for all."
        )


def count_runs(entries: Sequence[Entry], seeds: Sequence[int], tuning_seed: int) -> tuple[int, int]:
    """Runs of tuning, and runs of what was chosen beyond those."""
    trials = sum(len(entry.trials) for entry in entries)
    return trials, len(entries) * len([seed for seed in seeds if seed != tuning_seed])
