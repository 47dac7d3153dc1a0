"""What can be set, in words: the settings of the loop and of each method, and what a recipe says of its own.

`nearer settings`, `nearer recipes NAME` and the reference pages are made of this, so they cannot differ from the code.
"""

from __future__ import annotations

import importlib
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from nearer.errors import SettingError, nearest_name
from nearer.methods import known_methods
from nearer.teachers import TeacherSettings
from nearer.training.recipes import Recipe, find_recipe, load_recipe
from nearer.training.settings import TrainingSettings

LOOP = "every method"
TEACHER = "a teacher, as {model: NAME, …}"
KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}
SPELLED = {TeacherSettings: "model"}
# bounds that only catch a slip of the finger say nothing to a reader
SAID_BOUND = 10_000


@dataclass(frozen=True)
class Setting:
    """One setting, as a reader sees it."""

    name: str
    kind: str
    default: str
    description: str


def settings_of(method: str | None = None) -> dict[str, list[Setting]]:
    """By heading: all that a recipe of a method can set, or of any method."""
    methods = known_methods()
    if method is not None and method not in methods:
        near = nearest_name(method, methods)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(methods)}."
        raise SettingError(f"method: there is none named {method!r}; {hint}")
    chosen = [method] if method is not None else list(methods)
    of_methods = {name: list(_settings(methods[name].Settings)) for name in chosen}
    taught = any(methods[name].facts.teachers != "none" for name in chosen)
    teacher = {TEACHER: list(_settings(TeacherSettings))} if taught else {}
    return {**of_methods, LOOP: list(_settings(TrainingSettings)), **teacher}


@dataclass(frozen=True)
class DescribedRecipe:
    """A recipe with what its comments say: how to run it, what it is for, why a setting is what it is."""

    recipe: Recipe
    command: str
    purpose: str
    settings: list[tuple[str, str, str]]  # name, value as the file has it, what it does

    @property
    def method(self) -> str:
        return self.recipe.training.method


def described_recipe(source: str) -> DescribedRecipe:
    """A recipe by name or from a YAML file. Settings that it leaves out are not in it."""
    recipe = load_recipe(source)
    text = find_recipe(source).read_text(encoding="utf-8")
    head = [line.lstrip("# ").strip() for line in _head(text)]
    is_command = bool(head) and head[0].startswith("nearer ")
    models = (TrainingSettings, known_methods()[recipe.training.method].Settings)
    meaning = {setting.name: setting.description for model in models for setting in _settings(model)}
    rows = [(name, value, _with_comment(meaning[name], comment)) for name, value, comment in _entries(text)]
    return DescribedRecipe(
        recipe,
        head[0] if is_command else f"nearer train {source} --corpus FILE",
        " ".join(head[1:] if is_command else head),
        rows,
    )


def method_in_words(method: str) -> str:
    """The first sentence of the file that holds a method, which says what it does."""
    module = importlib.import_module(known_methods()[method].__module__)
    return " ".join((module.__doc__ or "").strip().partition("\n\n")[0].split())


def _settings(model: type[BaseModel]) -> Iterator[Setting]:
    for name, field in model.model_fields.items():
        yield Setting(name, _kind_of(field), _default(field), field.description or "")


def _kind_of(field: FieldInfo) -> str:
    bounds = [part for mark in field.metadata for part in _bound(mark)]
    return ", ".join([_kind(field.annotation), *bounds])


def _kind(annotation: Any) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inside[0])
    if origin is Literal:
        return ", ".join(str(value) for value in inside)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if part is type(None) else _kind(part) for part in inside)
    if origin is list:
        return f"list of {_kind(inside[0])}s"
    return SPELLED.get(annotation) or KINDS[annotation]


def _bound(mark: Any) -> Iterator[str]:
    if isinstance(mark, annotated_types.Ge):
        yield f"at least {mark.ge:g}"
    elif isinstance(mark, annotated_types.Gt):
        yield f"above {mark.gt:g}"
    elif isinstance(mark, annotated_types.Le) and float(mark.le) < SAID_BOUND:  # type: ignore[arg-type]
        yield f"at most {mark.le:g}"
    elif isinstance(mark, annotated_types.Lt):
        yield f"below {mark.lt:g}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return _as_yaml(field.get_default(call_default_factory=True))


def _as_yaml(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(_as_yaml(part) for part in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _with_comment(description: str, comment: str) -> str:
    return description if comment in description else f"{description} – {comment}"


def _head(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        yield line


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, value and comment of each setting in a recipe's file; lines below a name belong to its value."""
    entries: list[list[str]] = []
    for line in text.splitlines():
        code, _, comment = line.partition(" #") if not line.startswith("#") else ("", "", "")
        named = re.match(r"(\w+):\s*(.*?)\s*$", code)
        if named:
            entries.append([named[1], named[2], comment.strip()])
        elif entries and code.strip():
            entries[-1][1] = f"{entries[-1][1]}\n{code.strip()}".strip()
    for name, value, comment in entries:
        yield name, value, comment
