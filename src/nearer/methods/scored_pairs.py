"""CoSENT and AnglE: pairs with scores, of which a pair with a higher score is to be nearer.

L = w_1 · CoSENT + w_2 · AnglE, over all pairs of the batch. Only the order of the scores counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import angle, cosent
from nearer.text.reading import Reading


class ScoredPairsSettings(BaseModel):
    """What a CoSENT recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the worst pairs count")
    cosent_weight: Weight = Field(1.0, description="weight of the loss on cosines (CoSENT); 0 leaves it out")
    angle_weight: Weight = Field(0.0, description="weight of the loss on angles (AnglE); 0 leaves it out")

    @model_validator(mode="after")
    def _something_to_learn(self) -> Self:
        if not self.cosent_weight + self.angle_weight:
            raise ValueError("cosent_weight and angle_weight are both 0")
        return self


FACTS = MethodFacts(
    name="cosent",
    title="CoSENT",
    what="Of two pairs of sentences, the one that people scored higher is to be nearer; AnglE as a weight.",
    needs="pairs with scores",
    paper=Paper(
        "huang2024cosent",
        "CoSENT: Consistent Sentence Embedding via Similarity Ranking",
        (
            "Huang, Xiang",
            "Peng, Hao",
            "Zou, Dongcheng",
            "Liu, Zhiwei",
            "Li, Jianxin",
            "Liu, Kay",
            "Wu, Jia",
            "Su, Jianlin",
            "Yu, Philip S.",
        ),
        "IEEE/ACM Transactions on Audio, Speech, and Language Processing",
        2024,
        kind="article",
    ),
    data=("pairs",),
)


class ScoredPairs(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = ScoredPairsSettings
    settings: ScoredPairsSettings
    scores: NDArray[np.float32]

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        if reading.shape.name != "pair":
            raise SettingError("data: CoSENT learns from pairs with scores; set data=pairs.")
        if self.settings.angle_weight and encoder.dimension % 2:
            raise SettingError(f"angle_weight: needs vectors of an even size, {encoder.name} has {encoder.dimension}.")
        scores = []
        for line, pair in reading.located():
            if pair.score is None:
                raise InputError(
                    f"{reading.source}: {reading.report.unit} {line} has no score, and each pair needs one (column 3)."
                )
            scores.append(pair.score)
        self.scores = np.array(scores, dtype=np.float32)
        if len(set(scores)) < 2:
            raise InputError(f"{reading.source}: all pairs have the same score, so there is no order to learn.")
        return []

    def inputs(self, batch: Batch) -> Inputs:
        first, second = batch.fields
        return Inputs({"first": Pass(first), "second": Pass(second)}, {"scores": self.scores[batch.records]})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        first, second, settings = outputs.vectors["first"], outputs.vectors["second"], self.settings
        weights = {"cosent": settings.cosent_weight, "angle": settings.angle_weight}
        losses = {"cosent": cosent, "angle": angle}
        parts = {
            name: losses[name](first, second, given["scores"], temperature=settings.temperature)
            for name, weight in weights.items()
            if weight
        }
        nothing = given["scores"].new_zeros(())
        total = sum((weights[name] * part for name, part in parts.items()), start=nothing)
        return Losses(total, parts)
