"""Recipes: a method with its settings, from the ones that ship by name or from any YAML file.

Every mistake in a recipe is reported at once, unknown settings with the nearest right name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from nearer.errors import SettingError, did_you_mean, nearest_name, shown
from nearer.methods import known_methods
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
