"""Settings of construction in a sweep: debiased samples (DebCSE, Table 6), built once for each distinct choice.

    nearer sweep debcse-bert-base --corpus wiki.txt --set construct.model=SIMCSE \\
        --grid construct.low=0.1,0.25 --grid construct.m=1,2,3

Names that begin with `construct.` belong here; all others belong to the recipe. The corpus is then plain text, and the
runs of a point learn from `construct/…/data.jsonl` in the sweep's folder, whatever their seed and other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.errors import SettingError, did_you_mean, shown

if TYPE_CHECKING:
    from nearer.construct.debiased_sampler import DebiasedSettings
    from nearer.encoder import Encoder

PREFIX = "construct."
FOLDER = "construct"
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


class Builds:
    """The data sets of a sweep, below its folder. What was built before, in this call or another, stays."""

    def __init__(
        self, folder: Path, corpus: str | Path, reading: Mapping[str, Any], say: Callable[[str], None]
    ) -> None:
        self.folder, self.corpus, self.reading, self.say = folder / FOLDER, corpus, dict(reading), say
        self._built: dict[ConstructionPlan, Path] = {}
        self._encoders: dict[tuple[str, str | None], Encoder] = {}

    def data(self, plan: ConstructionPlan, *, progress: bool = False) -> Path:
        """The file that a run of this plan learns from."""
        if plan not in self._built:
            self._built[plan] = self._build(plan, progress)
        return self._built[plan]

    def _build(self, plan: ConstructionPlan, progress: bool) -> Path:
        from nearer.construct.debiased import DebiasedBuilder
        from nearer.construct.positives import WordFrequencies, generator_by_name
        from nearer.sweeps.grid import folder_name
        from nearer.teachers.teacher import teacher_precision
        from nearer.teachers.vector_store import VectorStore
        from nearer.text import read_sentences

        reading = read_sentences(self.corpus, **self.reading)
        encoder = self._encoder(plan)
        store = VectorStore(encoder, precision=teacher_precision(encoder.device))
        generator = generator_by_name(plan.generator, words=lambda: WordFrequencies.of(reading), device=encoder.device)
        folder = self.folder / folder_name(_telling(plan))
        builder = DebiasedBuilder(folder, reading, store, generator, plan.settings, limit=plan.limit)
        builder.learn(progress=progress)
        had = len(builder.building.done)
        builder.build(progress=progress)
        count = len(builder.building.done)
        if count > had:
            self.say(f"{folder}: {count:,} records built")
        return builder.finish()

    def _encoder(self, plan: ConstructionPlan) -> Encoder:
        from nearer.encoder import Encoder

        key = plan.model, plan.pooling
        if key not in self._encoders:
            self._encoders[key] = Encoder.load(plan.model, pooling=plan.pooling)
        return self._encoders[key]


def _telling(plan: ConstructionPlan) -> dict[str, Any]:
    """What differs from the defaults: enough to tell plans apart, short enough for a folder's name."""
    from nearer.construct.debiased_sampler import DebiasedSettings

    usual = {**asdict(DebiasedSettings()), MODEL: None, POOLING: None, GENERATOR: NOISE, LIMIT: None}
    named = {name.removeprefix(PREFIX): value for name, value in plan.named().items()}
    return {name: value for name, value in named.items() if value != usual[name]}
