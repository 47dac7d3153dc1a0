"""Recipes: a method with its settings, from the ones that ship by name or from any YAML file.

Every mistake in a recipe is reported at once, unknown settings with the nearest right name.

And what can be set, in words: the settings of the loop and of each method, and what a recipe says of its own. `nearer
settings`, `nearer recipes NAME` and the reference pages are made of this, so they cannot differ from the code.
"""

from __future__ import annotations

import importlib
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from nearer.errors import SettingError, did_you_mean, nearest_name, shown
from nearer.methods import known_methods
from nearer.teachers import TeacherSettings
from nearer.training.settings import TrainingSettings
from nearer.typed_files import Unreadable, parse_yaml, parsed_file

FOLDER = Path(__file__).parent.parent / "recipes"


@dataclass(frozen=True)
class Recipe:
    """A method's settings and the loop's, checked."""

    name: str
    training: TrainingSettings
    method: BaseModel

    def to_dict(self) -> dict[str, Any]:
        return {**self.training.model_dump(), **self.method.model_dump()}


def recipe_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def summary(name: str) -> str:
    """What a recipe's second comment line says of it; the first is the command that runs it."""
    comments = [line for line in (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    return comments[1].lstrip("# ") if len(comments) > 1 else ""


def find_recipe(source: str | Path) -> Path:
    """The file of a recipe that ships, by its name; a YAML file is itself."""
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        return path
    path = FOLDER / f"{source}.yaml"
    if not path.exists():
        hint = did_you_mean(str(source), recipe_names()) or " `nearer recipes` lists them."
        raise SettingError(f"recipe: there is none named {str(source)!r}.{hint}")
    return path


def load_recipe(source: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe by name or from a YAML file; `overrides` replace its settings."""
    path = find_recipe(source)
    values = parsed_file(path, error=SettingError, mend="name a recipe of `nearer recipes`, or mend the file")
    if not isinstance(values, dict):
        raise SettingError(f"{path}: a recipe is a list of `setting: value` lines.")
    replaced = dict(overrides or {})
    if "teachers" in replaced:  # the recipe's weights are those of its own teachers
        values.pop("teacher_weights", None)
    return check_recipe(_with_permission({**values, **replaced}), path.stem)


def _with_permission(values: dict[str, Any]) -> dict[str, Any]:
    """What allows pickled weights for a run allows them for its teachers, unless one says otherwise."""
    teachers = values.get("teachers")
    if values.get("allow_pickle") is not True or not teachers:
        return values
    listed = teachers if isinstance(teachers, list) else [teachers]
    named = [{"model": teacher} if isinstance(teacher, str) else teacher for teacher in listed]
    allowed = [{"allow_pickle": True, **teacher} if isinstance(teacher, Mapping) else teacher for teacher in named]
    return {**values, "teachers": allowed}


def check_recipe(values: Mapping[str, Any], name: str) -> Recipe:
    method = values.get("method")
    methods = known_methods()
    if not isinstance(method, str) or method not in methods:
        raise SettingError(f"{name}: method: {shown(method)} is not one of {', '.join(methods)}.")
    settings = methods[method].Settings
    ours, theirs = set(TrainingSettings.model_fields), set(settings.model_fields)
    mistakes = [_unknown(key, ours | theirs) for key in values if key not in ours | theirs]
    training = _checked(TrainingSettings, {key: values[key] for key in values if key in ours}, mistakes)
    of_method = _checked(settings, {key: values[key] for key in values if key in theirs}, mistakes)
    if mistakes or training is None or of_method is None:
        raise SettingError(f"{name}: {'; '.join(mistakes)}.")
    assert isinstance(training, TrainingSettings)
    return Recipe(name, training, of_method)


def parse_overrides(pairs: Sequence[str]) -> dict[str, Any]:
    """`key=value` as given to --set; the value is read as YAML."""
    parsed = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"--set: {pair!r} is not of the form key=value.")
        try:
            parsed[key.strip()] = parse_yaml(value)
        except Unreadable as error:
            raise SettingError(f"--set: the value of {key!r} cannot be read ({error}).") from None
    return parsed


def _checked(model: type[BaseModel], values: dict[str, Any], mistakes: list[str]) -> BaseModel | None:
    try:
        return model(**values)
    except ValidationError as errors:
        for error in errors.errors():
            message = error["msg"].removeprefix("Value error, ").rstrip(".")
            if not error["loc"]:  # about several settings together, which the message names
                mistakes.append(message)
                continue
            setting = ".".join(str(part) for part in error["loc"])
            found = "" if error["type"] == "missing" else f" ({shown(error['input'])} given)"
            mistakes.append(f"{setting}: {message}{found}")
        return None


def _unknown(key: str, known: set[str]) -> str:
    if key == "teachers":
        taught = [name for name, method in known_methods().items() if method.facts.teachers != "none"]
        return f"teachers: this method learns without; {', '.join(taught[:-1])} and {taught[-1]} learn from some"
    near = nearest_name(str(key), known, cutoff=0.5)
    return f"{key}: no such setting" + (f", did you mean {near!r}?" if near else "")


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
    if origin in (list, tuple):
        return f"some of {_kind(inside[0])}" if get_origin(inside[0]) is Literal else f"list of {_kind(inside[0])}s"
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
