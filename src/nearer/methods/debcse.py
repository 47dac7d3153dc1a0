"""DebCSE: positives that look different and negatives that look alike, both mined beforehand (`nearer construct
debiased`), and a contrast between each side's batch-normalised vectors and the other's plain ones (Eq. 7–9).

The ablations of Table 3 are settings. Pairs and triplets are samples with one mined positive, sentences with none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods.bounds import Temperature
from nearer.methods.contract import Batch, Ids, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import alternating_norm
from nearer.text.reading import Reading
from nearer.text.records import DebiasedSample, Pair, Triplet


class DebCSESettings(BaseModel):
    """What a DebCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    alternating: bool = Field(
        True, description="compare batch-normalised vectors with plain ones; false: plain with plain (Table 3)"
    )
    mined_negatives: bool = Field(
        True, description="use the mined negatives; false: only the other sentences of the batch (Table 3)"
    )
    mined_positives: bool = Field(
        True, description="use the mined positives; false: the anchor itself under other dropout (Table 3)"
    )
    positives_per_step: int | None = Field(
        None, ge=1, le=1_000_000, description="how many of a record's positives a step uses, drawn at random; null: all"
    )
    as_printed: bool = Field(False, description="leave the positive out of the denominator, as Eq. 8 and 9 are printed")


FACTS = MethodFacts(
    name="debcse",
    title="DebCSE",
    what="Positives and negatives are sampled by inverse propensity, so that surface and meaning do not go together.",
    needs="sentences, a first encoder",
    paper=Paper(
        "miao2023debcse",
        "DebCSE: Rethinking Unsupervised Contrastive Sentence Embedding Learning in the Debiasing Perspective",
        ("Miao, Pu", "Du, Zeyao", "Zhang, Junlin"),
        "Proceedings of the 32nd ACM International Conference on Information and Knowledge Management",
        2023,
    ),
    data=("debiased", "triplets", "pairs", "sentences"),
)


class DebCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = DebCSESettings
    settings: DebCSESettings

    def __init__(self, settings: DebCSESettings) -> None:
        super().__init__(settings)
        self.positives = self.negatives = 0  # that a record has, known from the text
        self.positive_views = 1

    def relies_on_dropout(self, data: str) -> bool:
        return not self.settings.mined_positives

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        settings = self.settings
        self.positives, self.negatives = _counts(reading)
        if settings.mined_positives:
            if not self.positives:
                raise InputError(f"{reading.source}: has no positives to learn from; set mined_positives=false.")
            self.positive_views = settings.positives_per_step or self.positives
            if self.positive_views > self.positives:
                raise SettingError(
                    f"positives_per_step: {self.positive_views} asked for, a record of {reading.source} has "
                    f"{self.positives}."
                )
        if settings.mined_negatives and not self.negatives:
            raise InputError(f"{reading.source}: has no mined negatives to learn from; set mined_negatives=false.")
        mined = self.negatives if settings.mined_negatives else 0
        parts = f"anchor 1, positives {self.positive_views}, mined negatives {mined}"
        return [f"{1 + self.positive_views + mined} sentences of each record pass the encoder ({parts})"]

    def inputs(self, batch: Batch) -> Inputs:
        anchors, *others = batch.fields
        passes = {"anchors": Pass(anchors)}
        for number, rows in enumerate(self._positives(anchors, others[: self.positives], batch)):
            passes[f"positives {number}"] = Pass(rows)
        if self.settings.mined_negatives:
            passes |= {f"negatives {number}": Pass(rows) for number, rows in enumerate(others[self.positives :])}
        return Inputs(passes)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        anchors, *others = outputs.vectors.values()
        mined = others[self.positive_views :]
        negatives = torch.stack(mined, dim=1) if mined else None  # (batch, m, dimension)
        each = [
            alternating_norm(
                anchors,
                positives,
                negatives,
                temperature=self.settings.temperature,
                normalise=self.settings.alternating,
                as_printed=self.settings.as_printed,
            )
            for positives in others[: self.positive_views]
        ]
        contrastive = torch.stack(each).mean()
        return Losses(contrastive, {"contrastive": contrastive})

    def describe(self) -> dict[str, Any]:
        counts = {"positives_per_record": self.positives, "negatives_per_record": self.negatives}
        return {**super().describe(), **counts}

    def _positives(
        self, anchors: Sequence[Ids], positives: Sequence[Sequence[Ids]], batch: Batch
    ) -> Sequence[Sequence[Ids]]:
        if not self.settings.mined_positives:
            return [anchors]
        if self.positive_views == len(positives):
            return positives
        # each record draws for itself, without replacement: (rows, views)
        drawn = batch.random.random((len(anchors), len(positives))).argsort(axis=1)[:, : self.positive_views]
        return [[positives[taken][row] for row, taken in enumerate(column)] for column in drawn.T]


def _counts(reading: Reading[Any]) -> tuple[int, int]:
    """Positives and negatives of the first record, which all others have as well."""
    first = next(iter(reading), None)
    reading.report.check_kept()
    match first:
        case DebiasedSample():
            return len(first.positives), len(first.negatives)
        case Triplet():
            return 1, 1
        case Pair():
            return 1, 0
        case str():
            return 0, 0
    raise InputError(f"{reading.source}: is read as {reading.shape.plural}; DebCSE needs data=debiased.")
