"""LEAGUE.yaml: which methods meet, on what, with how much tuning. A mistake is told with its line and its setting."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from nearer.errors import SettingError, nearest_name, shown
from nearer.training.settings import TrainingSettings
from nearer.typed_files import Unreadable, parse_yaml
from nearer.units import LARGEST_SEED

MOST = 1_000_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")  # of methods and backbones: also the names of folders
# What is the same for all methods, and the setting of the league that says so
FIXED = {
    "max_steps": "steps",
    "epochs": "steps",
    "seed": "seeds",
    "select_on": "select_on",
    "watch_on": "select_on",
    "held_out": "held_out",
    "evaluate_every": "evaluate_every",
    "test_on": "test_on",
    "model": "backbones",
    "method": "method",
}


def _one_or_several(value: object) -> object:
    """`sts,transfer` as well as a list."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_one_or_several)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)


class Range(Strict):
    """Numbers from one end to the other. log: equal factors are equally probable. whole: whole numbers alone."""

    low: float = Field(alias="from")
    high: float = Field(alias="to")
    scale: Literal["linear", "log"] = "linear"
    whole: bool = False

    @model_validator(mode="after")
    def _has_ends(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"from {self.low:g} to {self.high:g} holds nothing; the first end must be the lower one")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"scale log needs ends above 0, and from is {self.low:g}")
        if self.whole and math.floor(self.high) < math.ceil(self.low):
            raise ValueError(f"there is no whole number from {self.low:g} to {self.high:g}")
        return self


def _as_range(value: object) -> object:
    """A list of values, or a range; told apart here, so that a mistake is told of one of them alone."""
    if isinstance(value, list):
        if not value:
            raise ValueError("has no values")
        return value
    if not isinstance(value, Mapping):
        raise ValueError("is a list of values, or a range such as {from: 1.0e-5, to: 1.0e-4, scale: log}")
    try:
        return Range.model_validate(value)
    except ValidationError as mistakes:
        first = mistakes.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{key}: {message}" if key else message) from None


Choices = Annotated[list[Any] | Range, BeforeValidator(_as_range)]


class MethodPlan(Strict):
    """One method of the league: where its settings come from, what it learns from, which of them are tuned."""

    recipe: str | dict[str, str] | None = Field(None, description="a recipe or a YAML file; or one for each backbone")
    method: str | None = Field(None, description="package.module:Class of a method from outside, or a method's name")
    corpus: str | None = Field(None, description="records of another kind than the league's text: triplets, lists …")
    columns: Names | None = None
    teachers: list[str | dict[str, Any]] | None = None
    start: dict[str, str] = Field(default_factory=dict, description="by backbone: the model to start from, if trained")
    settings: dict[str, Any] = Field(default_factory=dict)
    tune: dict[str, Choices] = Field(default_factory=dict)
    published: str | None = Field(None, description="its name among the published figures, if not its title")

    @model_validator(mode="after")
    def _has_settings(self) -> Self:
        if self.recipe is None and self.method is None:
            raise ValueError("name a recipe (recipe: simcse-wiki-mini) or a method (method: package.module:Class)")
        return self


def _short_method(value: object) -> object:
    """`simcse: simcse-mobilebert` is short for a recipe alone."""
    return {"recipe": value} if isinstance(value, str) else value


def _named_backbones(value: object) -> object:
    """A list of models is named by the last part of each."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and all(isinstance(model, str) for model in value):
        names = [Path(model).name for model in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two models are named {name}; write them as `name: model` lines")
        return dict(zip(names, value, strict=True))
    return value


class LeaguePlan(Strict):
    """A league as its file has it; see docs/league.md."""

    title: str | None = None
    corpus: str
    columns: Names | None = None
    reading: dict[str, Any] = Field(default_factory=dict)
    data: str | None = Field(None, description="the folder of the published sets")
    backbones: Annotated[dict[str, str], BeforeValidator(_named_backbones), Field(min_length=1)]
    methods: dict[str, Annotated[MethodPlan, BeforeValidator(_short_method)]] = Field(min_length=1)
    baseline: str | None = Field(None, description="whom all are compared with; the first method if none is named")
    seeds: list[Seed] = Field(min_length=1)
    steps: int = Field(ge=1, le=MOST)
    trials: int = Field(ge=1, le=1000)
    trial_seed: Seed | None = Field(None, description="all trials are trained with it; the first of seeds if not said")
    draw_seed: Seed = Field(0, description="decides which settings are drawn")
    select_on: Names = Field(min_length=1)
    held_out: int | None = Field(None, ge=2, le=MOST)
    evaluate_every: int = Field(ge=1, le=MOST)
    test_on: Names = Field(min_length=1)
    settings: dict[str, Any] = Field(default_factory=dict)
    tune: dict[str, Choices] = Field(default_factory=dict)

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("repeats one")
        return seeds

    @field_validator("methods", "backbones")
    @classmethod
    def _names_of_folders(cls, named: dict[str, Any]) -> dict[str, Any]:
        for name in named:
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name for a folder; take letters, digits and . _ + -")
        folders = [name.lower() for name in named]
        if len(set(folders)) < len(folders):
            raise ValueError("two names differ in capitals alone")
        return named

    @property
    def baseline_method(self) -> str:
        return self.baseline or next(iter(self.methods))

    @property
    def tuning_seed(self) -> int:
        return self.seeds[0] if self.trial_seed is None else self.trial_seed


@dataclass(frozen=True)
class LeagueFile:
    """A plan, the file it was read from, and the line of each setting in it."""

    path: Path
    text: str
    plan: LeaguePlan
    lines: dict[tuple[str, ...], int]

    def where(self, *keys: str) -> str:
        """`league.yaml: line 12: methods.simcse.tune`, for a message."""
        return _where(self.path, self.lines, keys)


def read_league(path: str | Path) -> LeagueFile:
    """A league's file, checked by itself; recipes, texts and models are looked at by others."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise SettingError(f"{file}: cannot be read ({said}); name the YAML file of a league.") from None
    try:
        values = parse_yaml(text)
    except Unreadable as error:
        raise SettingError(f"{file}: cannot be read ({error}).") from None
    if not isinstance(values, dict):
        raise SettingError(f"{file}: a league is a list of `setting: value` lines.")
    lines: dict[tuple[str, ...], int] = {}
    for keys, line in _lines(yaml.compose(text, Loader=yaml.SafeLoader)):
        if keys in lines:
            raise SettingError(f"{file}: line {line}: {'.'.join(keys)}: is there already, in line {lines[keys]}.")
        lines[keys] = line
    try:
        plan = LeaguePlan.model_validate(values)
    except ValidationError as mistakes:
        raise SettingError(_mistake(file, lines, mistakes)) from None
    read = LeagueFile(file, text, plan, lines)
    _check_names(read)
    return read


def _lines(node: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every key of a YAML file with its line, and every element of a list by its number."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*keys, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _lines(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            inner = (*keys, str(number))
            yield inner, value.start_mark.line + 1
            yield from _lines(value, inner)


def _where(path: Path, lines: Mapping[tuple[str, ...], int], keys: Sequence[str]) -> str:
    line = next((lines[tuple(keys[:end])] for end in range(len(keys), 0, -1) if tuple(keys[:end]) in lines), None)
    parts = [str(path), *([f"line {line}"] if line is not None else []), *([".".join(keys)] if keys else [])]
    return ": ".join(parts)


def _mistake(path: Path, lines: Mapping[tuple[str, ...], int], mistakes: ValidationError) -> str:
    first = mistakes.errors()[0]
    keys = [str(part) for part in first["loc"]]
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    given = "" if first["type"] in ("missing", "extra_forbidden") else f" ({shown(first['input'])} given)"
    if first["type"] == "extra_forbidden":
        known = MethodPlan.model_fields if keys[0] == "methods" else LeaguePlan.model_fields
        near = nearest_name(keys[-1], known, cutoff=0.5)
        message = "no such setting" + (f", did you mean {near!r}?" if near else f"; there are {', '.join(known)}")
    if first["type"] == "missing":
        message = "is missing"
    ending = "" if message.endswith("?") else "."
    return f"{_where(path, lines, keys)}: {message}{given}{ending}"


def _check_names(league: LeagueFile) -> None:
    """What one part of the file says of another."""
    plan = league.plan
    if plan.baseline is not None and plan.baseline not in plan.methods:
        raise SettingError(f"{league.where('baseline')}: {plan.baseline!r} is none of the methods.")
    for name, method in plan.methods.items():
        for key in ("start", "recipe"):
            by_backbone = getattr(method, key)
            if isinstance(by_backbone, dict):
                _check_backbones(league, name, key, by_backbone)
        for key in ("settings", "tune"):
            _check_free(league, ("methods", name, key), getattr(method, key))
        for setting in {**plan.tune, **method.tune}:
            if setting in method.settings:
                where = league.where("methods", name, "settings", setting)
                raise SettingError(f"{where}: is tuned as well; drop one of the two.")
    for key in ("settings", "tune"):
        _check_free(league, (key,), getattr(plan, key))
        for setting in getattr(plan, key):
            if setting not in TrainingSettings.model_fields:
                raise SettingError(f"{league.where(key, setting)}: not every method has it; name it below the methods.")


def _check_backbones(league: LeagueFile, name: str, key: str, by_backbone: Mapping[str, str]) -> None:
    known = league.plan.backbones
    for backbone in by_backbone:
        if backbone not in known:
            where = league.where("methods", name, key, backbone)
            raise SettingError(f"{where}: is none of the backbones ({', '.join(known)}).")
    lacking = [backbone for backbone in known if backbone not in by_backbone]
    if lacking and (key == "recipe" or by_backbone):
        raise SettingError(f"{league.where('methods', name, key)}: none for the backbone {lacking[0]}.")


def _check_free(league: LeagueFile, keys: tuple[str, ...], settings: Mapping[str, Any]) -> None:
    for setting in settings:
        if setting in FIXED:
            where = league.where(*keys, setting)
            raise SettingError(f"{where}: is the same for all methods; the league's {FIXED[setting]} says it.")
