"""Numbers that are no use are refused by name, in every settings model, in recipes and in options."""

from __future__ import annotations

import dataclasses
import math
import typing
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

from nearer.cli.main import app
from nearer.construct.debiased_sampler import DebiasedSettings
from nearer.construct.engines.decoding import TokenSampling
from nearer.errors import SettingError
from nearer.methods import METHODS
from nearer.methods.simcse import SimCSESettings
from nearer.search.tuning import Wanted
from nearer.serve.limits import Limits
from nearer.serve.schemas import RerankBody, SearchBody
from nearer.teachers import TeacherSettings
from nearer.training.recipes import load_recipe, parse_overrides
from nearer.training.settings import TrainingSettings

# the least that each is made with
MODELS: dict[type[BaseModel], dict[str, Any]] = {
    TrainingSettings: {"method": "simcse", "model": "x", "pooling": "cls", "head": False},
    TeacherSettings: {"model": "x"},
    **{
        method.Settings: {"teachers": ["x"]} if "teachers" in method.Settings.model_fields else {}
        for method in METHODS.values()
    },
    SimCSESettings: {"teachers": ["x"], "false_negative_threshold": 0.9},  # one is nothing without the other
    RerankBody: {"model": "x", "query": "a", "documents": ["b"]},
    SearchBody: {"query": "a"},
}
BEYOND = [math.inf, -math.inf, math.nan]


def is_number(kind: Any) -> bool:
    return kind in (int, float) or any(is_number(part) for part in typing.get_args(kind) if part is not bool)


NUMBERS = [
    (model, name) for model in MODELS for name, field in model.model_fields.items() if is_number(field.annotation)
]


def test_the_numbers_are_found() -> None:
    found = {(model.__name__, name) for model, name in NUMBERS}
    assert len(found) > 35
    assert {("RefinementSettings", "rank_strength"), ("TrainingSettings", "dropout")} <= found
    assert {("RankCSESettings", "teacher_weights"), ("RankCSESettings", "teacher_max_length")} <= found


def named(error: ValidationError, name: str) -> bool:
    return any(name in (*problem["loc"], problem["msg"]) or name in problem["msg"] for problem in error.errors())


@pytest.mark.parametrize(("model", "name"), NUMBERS, ids=lambda part: getattr(part, "__name__", part))
@pytest.mark.parametrize("value", BEYOND)
def test_infinite_numbers_are_refused_by_name(model: type[BaseModel], name: str, value: float) -> None:
    for given_value in (value, [value]):
        with pytest.raises(ValidationError) as refused:
            model(**{**MODELS[model], name: given_value})
        assert named(refused.value, name)


@settings(max_examples=300, deadline=None)
@given(place=st.sampled_from(NUMBERS), value=st.floats() | st.integers())
def test_what_is_taken_is_finite_and_of_a_sane_size(place: tuple[type[BaseModel], str], value: float) -> None:
    model, name = place
    try:
        made = model(**{**MODELS[model], name: value})
    except ValidationError as refused:
        assert named(refused, name)  # noqa: PT017
        return
    taken = getattr(made, name)
    assert math.isfinite(taken)
    assert abs(taken) < 2**63


@pytest.mark.parametrize(
    ("settings_given", "told"),
    [
        ({"rank_strength": math.inf}, "rank_strength: Input should be"),
        ({"rank_strength": 1e9}, "rank_strength: "),
        ({"student_temperature": 0}, "student_temperature: "),
        ({"student_temperature": 1e-30}, "student_temperature: "),
        ({"learning_rate": 1e9}, "learning_rate: "),
        ({"learning_rate": -1}, "learning_rate: "),
        ({"seed": 2**63}, "seed: "),
        ({"batch_size": 10**12}, "batch_size: "),
        ({"model": ""}, "model: "),
        ({"select_on": ["stsb-dev", "stsb-dev"]}, "select_on: 'stsb-dev' is given twice"),
        ({"test_on": ["sts", " "]}, "test_on: a task without a name"),
        ({"teachers": ["a", "a"]}, "teachers: a is given twice"),
        ({"teachers": [{"model": "a", "pooling": ""}]}, "pooling"),
        ({"teachers": [{"model": "a", "text_normalisation": "upper"}]}, "text_normalisation"),
        ({"teacher_max_length": 2}, "teacher_max_length"),
        ({"teacher_max_length": "all"}, "teacher_max_length"),
    ],
)
def test_recipes_say_which(settings_given: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingError) as refused:
        load_recipe("refine-bert-base", settings_given)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan", "1e999"])
def test_given_to_set(value: str) -> None:
    with pytest.raises(SettingError, match="temperature: Input should be"):
        load_recipe("simcse-bert-base", parse_overrides([f"temperature={value}"]))


@pytest.mark.parametrize("make", [DebiasedSettings, TokenSampling, Limits], ids=lambda make: make.__name__)
def test_settings_of_other_parts(make: Any) -> None:
    """Those that are no models of pydantic; a number of theirs that is not one is told by name as well."""
    checked = 0
    for field in dataclasses.fields(make):
        if field.type in ("float", float):
            for value in BEYOND:
                with pytest.raises(SettingError, match="|".join([field.name, "range"])):
                    make(**{field.name: value})
            checked += 1
        if field.name == "seed":
            with pytest.raises(SettingError, match="seed"):
                make(seed=2**63)
    assert checked


def test_seeds_that_faiss_cannot_take() -> None:
    Wanted(seed=2**31 - 2).check()
    for wanted in (Wanted(seed=2**31 - 1), Wanted(seed=-1), Wanted(recall=math.nan), Wanted(recall=math.inf)):
        with pytest.raises(SettingError):
            wanted.check()


def options_of(group: typer.Typer, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str, Any]]:
    """Of every command: its names, and each argument of its function with its type."""
    found: list[tuple[tuple[str, ...], str, Any]] = []
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        kinds = typing.get_type_hints(command.callback)
        found += [((*path, name), argument, kind) for argument, kind in kinds.items()]
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        found += options_of(inner.typer_instance, (*path, str(inner.name)))
    return found


OPTIONS = options_of(app)
FLOATS = [(path, name) for path, name, kind in OPTIONS if float in (kind, *typing.get_args(kind))]
SEEDS = [(path, name) for path, name, _ in OPTIONS if name == "seed"]


def usage_error(arguments: list[str]) -> str:
    """What is told of the first option that is wrong; arguments that are missing come later."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    return done.output


@pytest.mark.parametrize(("path", "name"), FLOATS, ids=str)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_options_that_are_numbers_are_finite(path: tuple[str, ...], name: str, value: str) -> None:
    option = f"--{name.replace('_', '-')}"
    assert f"Invalid value for '{option}'" in usage_error([*path, f"{option}={value}"])


@pytest.mark.parametrize(("path", "name"), SEEDS, ids=str)
@pytest.mark.parametrize("value", [str(2**63), "-1"])
def test_options_that_are_seeds_have_an_end(path: tuple[str, ...], name: str, value: str) -> None:
    assert f"Invalid value for '--{name}'" in usage_error([*path, f"--{name}={value}"])


def test_all_of_them_were_found() -> None:
    assert len(FLOATS) >= 15
    assert len(SEEDS) >= 7
