"""Settings of construction in a sweep: debiased samples (DebCSE, Table 6), built once for each distinct choice.

    nearer sweep debcse-bert-base --corpus wiki.txt --set construct.model=SIMCSE \\
        --grid construct.low=0.1,0.25 --grid construct.m=1,2,3

Names that begin with `construct.` belong here; all others belong to the recipe. The corpus is then plain text, and the
runs of a point learn from `construct/…/data.jsonl` in the sweep's folder, whatever their seed and other settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from nearer.errors import SettingError, did_you_mean, shown

if TYPE_CHECKING:
    from nearer.construct.debiased_sampler import DebiasedSettings

PREFIX = "construct."
MODEL, POOLING, GENERATOR, LIMIT, BOTH = "model", "pooling", "generator", "limit", "m"
NOISE = "noise"
BOTH_NAME = f"{PREFIX}{BOTH}"


@dataclass(frozen=True)
class ConstructionPlan:
    """What the data of a run is built by. settings: all of the samples; limit: anchors, None for all."""

    model: str
    pooling: str | None
    generator: str
    limit: int | None
    settings: DebiasedSettings

    def named(self) -> dict[str, Any]:
        """By the names that a grid has for them."""
        others = {MODEL: self.model, POOLING: self.pooling, GENERATOR: self.generator, LIMIT: self.limit}
        return {f"{PREFIX}{name}": value for name, value in {**others, **asdict(self.settings)}.items()}


def names_of_both() -> tuple[str, str]:
    """What `construct.m` stands for."""
    return f"{PREFIX}positives", f"{PREFIX}negatives"


def is_construction(name: str) -> bool:
    return name.startswith(PREFIX)


def split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of the recipe, and those of construction."""
    built = {name: value for name, value in settings.items() if is_construction(name)}
    return {name: value for name, value in settings.items() if name not in built}, built


def plan_construction(given: Mapping[str, Any]) -> ConstructionPlan:
    """What these settings (`construct.low` and so on) mean; `construct.m` is both positives and negatives."""
    from nearer.construct.debiased_sampler import DebiasedSettings

    kinds = {field.name: field.type for field in fields(DebiasedSettings)}
    known = {**kinds, MODEL: "str", POOLING: "str", GENERATOR: "str", LIMIT: "int", BOTH: "int"}
    values: dict[str, Any] = {}
    for name, value in given.items():
        short = name.removeprefix(PREFIX)
        if short not in known:
            hint = did_you_mean(name, [PREFIX + one for one in known])
            raise SettingError(f"{name}: construction has no such setting.{hint}")
        values[short] = _checked(name, value, known[short])
    if (both := values.pop(BOTH, None)) is not None:
        for name in ("positives", "negatives"):
            if values.setdefault(name, both) != both:
                raise SettingError(
                    f"{PREFIX}{BOTH}: is {both}, and {PREFIX}{name} is {values[name]}; give one of them."
                )
    model = values.pop(MODEL, None)
    if model is None:
        raise SettingError(
            f"{PREFIX}{MODEL}: construction needs a trained encoder; name it (--set {PREFIX}{MODEL}=MODEL)."
        )
    limit = values.pop(LIMIT, None)
    if limit is not None and limit < 1:
        raise SettingError(f"{PREFIX}{LIMIT}: {limit} is below 1.")
    pooling, generator = values.pop(POOLING, None), values.pop(GENERATOR, NOISE)
    try:
        return ConstructionPlan(model, pooling, generator, limit, DebiasedSettings(**values))
    except SettingError as error:
        raise SettingError(f"{PREFIX}{error}") from None


def _checked(name: str, value: Any, kind: Any) -> Any:
    """A value as YAML gave it, of the kind that the setting has."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind == "int" and whole:
        return value
    if kind == "float" and (whole or isinstance(value, float)):
        return float(value)
    if kind not in ("int", "float") and isinstance(value, str):
        return value
    wanted = {"int": "a whole number", "float": "a number"}.get(kind, "a name")
    raise SettingError(f"{name}: {shown(value)} is not {wanted}.")
