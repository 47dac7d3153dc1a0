"""ArcCSE: the contrast of SimCSE with an angular margin, and masked copies of a sentence in their order.

L = L_arc + λ · L_tri.  L_arc asks that a positive is nearer than the negatives by an angle m. L_tri asks that a
sentence is nearer to its copy with a short span masked than to the one with a longer span masked.

There is no released code. Assumed, since the text of the paper leaves it open: which span is masked (one drawn at
random, the longer one around the shorter one), that sentences below 25 tokens have no copies, that all passes have
dropout, and the loop's settings (those of SimCSE).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Ids, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import arc_con, masked_order
from nearer.text.augmentation import Masker
from nearer.text.reading import Reading


class ArcCSESettings(BaseModel):
    """What an ArcCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    angular_margin: float = Field(
        10.0, ge=0, le=90, description="m in degrees: by how much a positive is to be nearer than negatives"
    )
    order_weight: Weight = Field(0.1, description="λ: weight of the order of masked copies; 0 leaves them out")
    order_margin: float = Field(
        0.0, ge=0, le=2, description="by how much the less masked copy is to be nearer than the other"
    )
    less_masked: float = Field(0.2, gt=0, lt=1, description="share of tokens that is masked in the nearer copy")
    more_masked: float = Field(0.4, gt=0, lt=1, description="share of tokens that is masked in the other copy")
    shortest_masked: int = Field(
        25, ge=4, description="tokens, special ones included, that a sentence needs to have copies"
    )

    @model_validator(mode="after")
    def _less_is_less(self) -> Self:
        if self.less_masked >= self.more_masked:
            raise ValueError(f"less_masked: {self.less_masked} is not below more_masked, {self.more_masked}")
        return self


FACTS = MethodFacts(
    name="arccse",
    title="ArcCSE",
    what="As SimCSE with an angular margin; a sentence is nearer to its less masked copy than to a more masked one.",
    needs="sentences, a model with a mask token",
    paper=Paper(
        "zhang2022contrastive",
        "A Contrastive Framework for Learning Sentence Representations from Pairwise and Triple-wise Perspective in "
        "Angular Space",
        ("Zhang, Yuhao", "Zhu, Hongji", "Wang, Yongliang", "Xu, Nan", "Li, Xiaobo", "Zhao, Binqiang"),
        "Proceedings of the 60th Annual Meeting of the Association for Computational Linguistics (Volume 1: Long "
        "Papers)",
        2022,
    ),
    data=("sentences",),
)


class ArcCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = ArcCSESettings
    settings: ArcCSESettings
    mask_id = 0

    def relies_on_dropout(self, data: str) -> bool:
        return True

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        settings = self.settings
        if not settings.order_weight:
            return []
        self.mask_id = Masker.of(encoder.tokenizer, settings.less_masked, setting="order_weight").mask_id
        if max_length is not None and max_length < settings.shortest_masked:
            return [
                f"shortest_masked: no sentence has {settings.shortest_masked} tokens at max_length={max_length}, so "
                "none has masked copies"
            ]
        return []

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("ArcCSE learns from sentences alone: set data=sentences.")
        rows = batch.fields[0]
        passes = {"anchors": Pass(rows), "positives": Pass(rows)}
        if not self.settings.order_weight:
            return Inputs(passes)
        copies = [self._copies(ids, batch.random) for ids in rows]
        passes |= {"less": Pass([less for less, _ in copies]), "more": Pass([more for _, more in copies])}
        assert batch.lengths is not None
        return Inputs(passes, {"masked": batch.lengths >= self.settings.shortest_masked})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        settings, vectors = self.settings, outputs.vectors
        anchors = vectors["anchors"]
        margin = math.radians(settings.angular_margin)
        contrastive = arc_con(anchors, vectors["positives"], temperature=settings.temperature, margin=margin)
        if not settings.order_weight:
            return Losses(contrastive, {"contrastive": contrastive})
        order = masked_order(anchors, vectors["less"], vectors["more"], given["masked"], margin=settings.order_margin)
        return Losses(contrastive + settings.order_weight * order, {"contrastive": contrastive, "order": order})

    def _copies(self, ids: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """With a short span masked, and with a longer one around it. Special tokens at both ends stay."""
        if len(ids) < self.settings.shortest_masked:
            ends = ids[[0, -1]]  # not counted, but each record has rows
            return ends, ends
        inner = len(ids) - 2
        fewer, many = (max(1, round(share * inner)) for share in (self.settings.less_masked, self.settings.more_masked))
        start = 1 + int(random.integers(0, inner - many + 1))
        within = start + int(random.integers(0, many - fewer + 1))
        less, more = ids.copy(), ids.copy()
        less[within : within + fewer] = self.mask_id
        more[start : start + many] = self.mask_id
        return less, more
