"""CT: two copies of an encoder drift apart, held together by the one thing they must agree on: which sentence is which.

L = mean over pairs of −log σ(z) if both are the same sentence, else −log(1 − σ(z)),  z = f_1(s) · f_2(s').  Every
sentence of a batch is paired with itself and with `negatives` others. The encoder that is saved is f_1: the two are
alike in all but the copy. (The released code saves the better one on its dev set, sentence-transformers always f_2.)

Assumed: others of the batch are drawn anew for each sentence; the loop's AdamW and falling rate stand for RMSprop and
its stairs. Dropout is off in the released training, so the recipes say `dropout: 0`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import Temperature
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import contrastive_tension
from nearer.objectives.similarity import similarities
from nearer.text.reading import Reading


class CTSettings(BaseModel):
    """What a CT recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    negatives: int = Field(7, ge=1, le=10**6, description="K: other sentences of the batch that each is paired with")
    similarity: Literal["dot", "cosine"] = Field("dot", description="how the two encoders' vectors are compared")
    temperature: Temperature = Field(
        1.0, description="what similarities are divided by; cosines need about 0.05, or no pair is ever told for sure"
    )
    variant: Literal["paper", "released"] = Field(
        "paper",
        description="released: of 1 + 2 · negatives sentences one is paired with itself and the others with each "
        "other, so most are looked at by one encoder alone",
    )


FACTS = MethodFacts(
    name="ct",
    title="CT",
    what="Two copies of the encoder are to agree on a sentence and to disagree on two different ones.",
    needs="sentences",
    paper=Paper(
        "carlsson2021semantic",
        "Semantic Re-tuning with Contrastive Tension",
        (
            "Carlsson, Fredrik",
            "Cuba Gyllensten, Amaru",
            "Gogoulou, Evangelia",
            "Ylipää Hellqvist, Erik",
            "Sahlgren, Magnus",
        ),
        "International Conference on Learning Representations",
        2021,
    ),
    data=("sentences",),
)


class CT(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = CTSettings
    settings: CTSettings
    second: Encoder

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        self.second = copy.deepcopy(encoder)
        return []

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"second": self.second})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("CT learns from sentences alone: set data=sentences.")
        rows = batch.fields[0]
        pairs = self._pairs(len(batch.records), batch.common_random)
        return Inputs({"first": Pass(rows), "second": Pass(rows, "second")}, {"pairs": pairs})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        vectors, settings = outputs.vectors, self.settings
        scores = similarities(vectors["first"], vectors["second"], settings.similarity) / settings.temperature
        tension = contrastive_tension(scores, given["pairs"])
        return Losses(tension, {"tension": tension})

    def _pairs(self, count: int, random: np.random.Generator) -> NDArray[np.bool_]:
        """Which of the batch's sentences (by the first encoder, by the second) are pairs that count."""
        pairs = np.zeros((count, count), dtype=bool)
        if self.settings.variant == "released":
            group = 1 + 2 * self.settings.negatives
            for start in range(0, count, group):
                members = np.arange(start, min(count, start + group))
                pairs[start, start] = True
                others = members[1 : 1 + (len(members) - 1) // 2 * 2]
                pairs[others[0::2], others[1::2]] = True
            return pairs
        negatives = min(self.settings.negatives, count - 1)
        # the smallest of uniform numbers in each row are a sample; a sentence's own is never among them
        drawn = random.random((count, count))
        np.fill_diagonal(drawn, np.inf)
        np.put_along_axis(pairs, np.argsort(drawn, axis=1)[:, :negatives], True, axis=1)
        np.fill_diagonal(pairs, True)
        return pairs
