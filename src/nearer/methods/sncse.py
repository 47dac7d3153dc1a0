"""SNCSE: beside the contrast of two templates, a negated sentence stays between its anchor and the other sentences.

L = InfoNCE(z_1, z_2) + λ · BML(z_1, z_2, z_3).  z_1 and z_2 are a sentence in two templates, z_3 is its negation in the
second: a soft negative, which is no negative of the contrast. At inference the state of [MASK] is the vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.parts import Dense
from nearer.errors import InputError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Ids, Inputs, Losses, Method, Modules, Outputs
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.prompt_views import PromptViews, TemplateText, training_head
from nearer.objectives import bidirectional_margin, info_nce
from nearer.text.negation import NEGATIONS, put_not_first
from nearer.text.reading import Reading
from nearer.text.reading_filters import ChangedSentences
from nearer.text.token_store import TokenStore, open_store
from nearer.text.tokenise import END_MARKS


class SNCSESettings(BaseModel):
    """What an SNCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    second_template: TemplateText = Field(
        'This sentence of " {sentence} " means [MASK] .',
        description="template of the positive and of the soft negative; that of the anchor is the model's (template)",
    )
    negation: Literal["english", "not_first"] = Field(
        "english",
        description="how a sentence becomes its soft negative: rules for English, or 'Not' in front; with data=pairs "
        "the second sentence of a pair is the soft negative",
    )
    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    margin_weight: Weight = Field(1e-3, description="λ: weight of the loss on soft negatives; 0 leaves it out")
    smallest_margin: float = Field(
        0.1, ge=0, le=2, description="α: by so much a soft negative should be less near than the positive, at least"
    )
    largest_margin: float = Field(0.3, ge=0, le=2, description="β: and by so much at most")
    variant: Literal["paper", "released"] = Field(
        "paper",
        description="released: a sentence without a full stop at its end is negated by 'Not' in front, as the released "
        "code does, whose look-up misses it",
    )

    @model_validator(mode="after")
    def _room_between(self) -> Self:
        if self.smallest_margin > self.largest_margin:
            raise ValueError(f"smallest_margin {self.smallest_margin} is above largest_margin {self.largest_margin}")
        return self


FACTS = MethodFacts(
    name="sncse",
    title="SNCSE",
    what="As PromptBERT's two templates, and a negated sentence stays between its anchor and the other sentences.",
    needs="English sentences, or pairs with a soft negative; a model with a mask token",
    paper=Paper(
        "wang2022sncse",
        "SNCSE: Contrastive Learning for Unsupervised Sentence Embedding with Soft Negative Samples",
        ("Wang, Hao", "Li, Yangguang", "Huang, Zhen", "Dou, Yong", "Kong, Lingpeng", "Shao, Jing"),
        "arXiv preprint arXiv:2201.05979",
        2022,
        kind="article",
    ),
    data=("sentences", "pairs"),
    views=3,
    saves="an encoder with its template",
)


class SNCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = SNCSESettings
    settings: SNCSESettings
    views: PromptViews
    head: Dense
    negations: TokenStore | None = None

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        self.views = PromptViews(encoder, self.settings.second_template, max_length)
        self.head = training_head(encoder)
        if reading.shape.name == "sentence" and self.settings.margin_weight:
            named = f"negated: {self.settings.negation}, {self.settings.variant}"
            self.negations = open_store(
                ChangedSentences(reading, self._negated, named),
                encoder.tokenizer,
                max_length=self.views.max_length,
                text_normalisation=encoder.settings.text_normalisation,
                progress=progress,
            )
        return []

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"head": self.head})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 2:
            raise InputError(f"SNCSE learns from sentences or pairs, not from records of {len(batch.fields)} texts.")
        rows = batch.fields[0]
        passes = {"anchors": self.views.in_first(rows), "positives": self.views.in_second(rows)}
        if self.settings.margin_weight:
            soft = batch.fields[1] if len(batch.fields) == 2 else list(self._negations(batch))
            passes["soft negatives"] = self.views.in_second(soft)
        return Inputs(passes)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        settings, head = self.settings, modules["head"]
        vectors = {name: head(found) for name, found in outputs.vectors.items()}
        anchors, positives = vectors["anchors"], vectors["positives"]
        contrastive = info_nce(anchors, positives, temperature=settings.temperature)
        if not settings.margin_weight:
            return Losses(contrastive, {"contrastive": contrastive})
        margin = bidirectional_margin(
            anchors,
            positives,
            vectors["soft negatives"],
            smallest=settings.smallest_margin,
            largest=settings.largest_margin,
        )
        total = contrastive + settings.margin_weight * margin
        return Losses(total, {"contrastive": contrastive, "margin": margin})

    def _negations(self, batch: Batch) -> Iterator[Ids]:
        assert self.negations is not None
        for record in batch.own_records:
            yield self.negations[int(record)].astype(np.int64)

    def _negated(self, sentence: str) -> str:
        if self.settings.variant == "released" and not sentence.rstrip().endswith(tuple(END_MARKS)):
            return put_not_first(sentence)
        return NEGATIONS[self.settings.negation](sentence)
