"""The data sets of a sweep over construction, one folder for each distinct plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.sweeps.construction import GENERATOR, LIMIT, MODEL, NOISE, POOLING, PREFIX, ConstructionPlan
from nearer.sweeps.grid import folder_name

if TYPE_CHECKING:
    from nearer.encoder import Encoder

FOLDER = "construct"


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
