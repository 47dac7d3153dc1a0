"""SimCSE: a sentence predicts itself under another dropout mask; or its entailment, against its contradiction.

Unsupervised (sentences): the same tokens pass the encoder twice, and dropout makes the two views differ.
Supervised (pairs, triplets): the second sentence is the positive, the third the hard negative.
The ablations of the paper are settings.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.language_head import LanguageHead, language_head
from nearer.errors import InputError
from nearer.methods.bounds import LARGEST_WEIGHT, Temperature, Weight
from nearer.methods.contract import Batch, Ids, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import info_nce, masked_language
from nearer.objectives.masked_language import NOTHING
from nearer.text.augmentation import Augmenter, Masker
from nearer.text.reading import Reading


class SimCSESettings(BaseModel):
    """What a SimCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    similarity: Literal["cosine", "dot"] = Field("cosine", description="how two vectors are compared in training")
    hard_negative_weight: float = Field(
        1.0, ge=1e-6, le=LARGEST_WEIGHT, description="α of Eq. 8: how much an anchor's own hard negative counts"
    )
    mlm_weight: Weight = Field(0.0, description="weight of the masked language loss; 0 leaves it out")
    mlm_rate: float = Field(0.15, gt=0, lt=1, description="share of tokens that are masked")
    fixed_masks: bool = Field(
        False, description="use the same dropout mask for both views; training then collapses (Table 3)"
    )
    two_encoders: bool = Field(False, description="train a second encoder for the positives (Table 2)")
    augmentation: Literal["none", "crop", "word_deletion", "delete_one_word"] = Field(
        "none", description="how the second view of a sentence is changed"
    )
    augmentation_rate: float = Field(0.1, ge=0, lt=1, description="share of words that crop or word_deletion removes")


FACTS = MethodFacts(
    name="simcse",
    title="SimCSE",
    what="A sentence is to be nearer to its own view (or to its positive) than to the other sentences of the batch.",
    needs="sentences; pairs or triplets",
    paper=Paper(
        "gao2021simcse",
        "SimCSE: Simple Contrastive Learning of Sentence Embeddings",
        ("Gao, Tianyu", "Yao, Xingcheng", "Chen, Danqi"),
        "Proceedings of the 2021 Conference on Empirical Methods in Natural Language Processing",
        2021,
    ),
    data=("sentences", "pairs", "triplets"),
)
SIDES = ("anchors", "positives", "hard_negatives")


class SimCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = SimCSESettings
    settings: SimCSESettings

    def __init__(self, settings: SimCSESettings) -> None:
        super().__init__(settings)
        self.second: Encoder | None = None
        self.language_head: LanguageHead | None = None

    def relies_on_dropout(self, data: str) -> bool:
        settings = self.settings
        removes_a_share = settings.augmentation in ("crop", "word_deletion")
        augmented = settings.augmentation_rate > 0 if removes_a_share else settings.augmentation != "none"
        return data == "sentences" and not augmented and not settings.fixed_masks

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        settings, remarks = self.settings, []
        self.augmenter = Augmenter(settings.augmentation, settings.augmentation_rate, encoder.tokenizer)
        if settings.two_encoders:
            self.second = copy.deepcopy(encoder)
        if settings.mlm_weight:
            self.masker = Masker.of(encoder.tokenizer, settings.mlm_rate)
            self.language_head, remark = language_head(encoder.backbone, encoder.source)
            self.language_head.to(encoder.device)
            remarks += [remark] if remark else []
        return remarks

    def modules(self) -> nn.ModuleDict:
        parts = {"second": self.second, "language_head": self.language_head}
        return nn.ModuleDict({name: module for name, module in parts.items() if module is not None})

    def inputs(self, batch: Batch) -> Inputs:
        sides = dict(zip(SIDES, self._rows(batch), strict=False))
        others = "second" if self.second is not None else "encoder"
        same_masks = "anchors" if self.settings.fixed_masks else None
        passes = {"anchors": Pass(sides.pop("anchors"))}
        passes |= {name: Pass(rows, others, noise_of=same_masks) for name, rows in sides.items()}
        if self.language_head is not None:
            passes["masked"] = self._masked([ids for each in passes.values() for ids in each.rows], batch)
        return Inputs(passes)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        contrastive = info_nce(
            *outputs.vectors.values(),
            temperature=self.settings.temperature,
            hard_negative_weight=self.settings.hard_negative_weight,
            similarity=self.settings.similarity,
        )
        if "masked" not in outputs.tokens:
            return Losses(contrastive, {"contrastive": contrastive})
        masked = outputs.tokens["masked"]
        targets = masked.labels["targets"].where(masked.real, NOTHING)
        logits = modules["language_head"](masked.states, modules.word_embeddings)
        mlm = masked_language(logits, targets) / masked.real.sum().clamp(min=1)
        return Losses(contrastive + self.settings.mlm_weight * mlm, {"contrastive": contrastive, "mlm": mlm})

    def _rows(self, batch: Batch) -> list[list[Ids]]:
        """Anchors, positives and, of triplets, hard negatives."""
        if len(batch.fields) > 3:
            raise InputError(f"SimCSE learns from sentences, pairs or triplets, not from lists of {len(batch.fields)}.")
        if len(batch.fields) > 1:
            return [list(rows) for rows in batch.fields]
        rows = list(batch.fields[0])
        return [rows, [self.augmenter(ids, batch.random) for ids in rows]]

    def _masked(self, copies: Sequence[Ids], batch: Batch) -> Pass:
        """Every copy is masked for itself and passes the encoder a second time."""
        masked = [self.masker(ids, batch.random) for ids in copies]
        return Pass(
            [ids for ids, _ in masked],
            wanted="tokens",
            chosen=[chosen for _, chosen in masked],
            labels={"targets": copies},
        )
