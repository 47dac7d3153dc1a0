"""SimCSE: a sentence predicts itself under another dropout mask; or its entailment, against its contradiction.

Unsupervised (sentences): the same tokens pass the encoder twice, and dropout makes the two views differ.
Supervised (pairs, triplets): the second sentence is the positive, the third the hard negative.
The ablations of the paper are settings.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.distributed import gather_rows, total
from nearer.encoder import Encoder
from nearer.encoder.language_head import LanguageHead, language_head
from nearer.errors import InputError
from nearer.methods.contract import Batch, Ids, Losses
from nearer.objectives import info_nce, masked_language
from nearer.text.masking import Masker
from nearer.text.words import Augmenter


class SimCSESettings(BaseModel):
    """What a SimCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float = Field(0.05, gt=0, description="τ: smaller, and only the nearest negatives count")
    similarity: Literal["cosine", "dot"] = "cosine"
    hard_negative_weight: float = Field(1.0, gt=0, description="α of Eq. 8, for an anchor's own hard negative")
    mlm_weight: float = Field(0.0, ge=0, description="weight of the masked language loss; 0 leaves it out")
    mlm_rate: float = Field(0.15, gt=0, lt=1, description="share of tokens that are masked")
    fixed_masks: bool = Field(False, description="the same dropout mask for both views (collapses: Table 3)")
    two_encoders: bool = Field(False, description="a second encoder for the positives (Table 2)")
    augmentation: Literal["none", "crop", "word_deletion", "delete_one_word"] = "none"
    augmentation_rate: float = Field(0.1, ge=0, lt=1, description="share of words that crop or word_deletion removes")


class SimCSE:
    """The method as the loop sees it."""

    def __init__(self, settings: SimCSESettings) -> None:
        self.settings = settings
        self.second: Encoder | None = None
        self.language_head: LanguageHead | None = None

    def prepare(self, encoder: Encoder) -> list[str]:
        settings, remarks = self.settings, []
        self.augmenter = Augmenter(settings.augmentation, settings.augmentation_rate, encoder.tokenizer)
        if settings.two_encoders:
            self.second = copy.deepcopy(encoder)
        if settings.mlm_weight:
            self.masker = Masker.of(encoder.tokenizer, settings.mlm_rate)
            self.language_head, found = language_head(encoder.backbone, encoder.source)
            self.language_head.to(encoder.device)
            if not found:
                remarks.append("the checkpoint has no head for masked language modelling: a fresh one is trained")
        return remarks

    def modules(self) -> nn.ModuleDict:
        parts = {"second": self.second, "language_head": self.language_head}
        return nn.ModuleDict({name: module for name, module in parts.items() if module is not None})

    def loss(self, encoder: Encoder, batch: Batch) -> Losses:
        views = self._views(batch)
        vectors = [gather_rows(rows, batch.counts) for rows in self._encoded(encoder, views, batch)]
        contrastive = info_nce(
            *vectors,
            temperature=self.settings.temperature,
            hard_negative_weight=self.settings.hard_negative_weight,
            similarity=self.settings.similarity,
        )
        if self.language_head is None:
            return Losses(contrastive, {"contrastive": contrastive})
        masked = self._masked_language(encoder, views, batch)
        return Losses(contrastive + self.settings.mlm_weight * masked, {"contrastive": contrastive, "mlm": masked})

    def describe(self) -> dict[str, Any]:
        return {"method": "simcse", **self.settings.model_dump()}

    def _views(self, batch: Batch) -> list[list[Ids]]:
        """Anchors, positives and, of triplets, hard negatives: token rows of this process."""
        if len(batch.fields) > 3:
            raise InputError(f"SimCSE learns from sentences, pairs or triplets, not from lists of {len(batch.fields)}.")
        if len(batch.fields) > 1:
            return [list(rows) for rows in batch.fields]
        rows = list(batch.fields[0])
        return [rows, [self.augmenter(ids, batch.random) for ids in rows]]

    def _encoded(self, encoder: Encoder, views: Sequence[Sequence[Ids]], batch: Batch) -> Sequence[Tensor]:
        if self.second is None and not self.settings.fixed_masks:
            # one pass over all views: each row draws its own dropout mask
            ids, mask = batch.pad([ids for view in views for ids in view])
            vectors: Tensor = encoder(ids, mask)
            return vectors.chunk(len(views))
        encoders = [encoder] + [self.second or encoder] * (len(views) - 1)
        padded = [batch.pad(view) for view in views]
        if not self.settings.fixed_masks:
            return [model(*tensors) for model, tensors in zip(encoders, padded, strict=True)]
        seed = int(batch.random.integers(2**62))
        encoded = []
        for model, tensors in zip(encoders, padded, strict=True):
            torch.manual_seed(seed)
            encoded.append(model(*tensors))
        return encoded

    def _masked_language(self, encoder: Encoder, views: Sequence[Sequence[Ids]], batch: Batch) -> Tensor:
        """The loss over the whole batch, with the gradient of this process' rows.

        Every copy is masked for itself and passes the encoder a second time.
        """
        assert self.language_head is not None
        rows = [self.masker(ids, batch.random) for view in views for ids in view]
        ids, mask = batch.pad([masked for masked, _ in rows])
        chosen, _ = batch.pad([places.astype(np.int64) for _, places in rows])
        targets, _ = batch.pad([ids for view in views for ids in view])
        predicted = (chosen == 1) & (mask == 1)
        states = encoder.states(ids, mask)[predicted]
        embeddings: Any = encoder.backbone.get_input_embeddings()  # type: ignore[operator]
        summed = masked_language(self.language_head(states, embeddings.weight), targets[predicted])
        count = total(predicted.sum()).clamp(min=1)
        return (summed + (total(summed) - summed).detach()) / count
