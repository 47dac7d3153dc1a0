"""DiffCSE: beside the contrast of dropout views, a discriminator that knows a sentence's vector finds replaced tokens.

L = InfoNCE(z_1, z_2) + λ · L_RTD.  A frozen masked language model (the generator) edits each view; the discriminator, a
second backbone that gets z in the place of its first token, says of each token whether it was replaced. z is the
vector behind a projector with batch norm. At inference the vector is the encoder's own: all else is for training.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.network import put_embeddings
from nearer.errors import InputError, SettingError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Ids, Inputs, Losses, Method, Modules, Outputs, Pass, Tokens
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.generator import Generator, drawn, load_generator
from nearer.methods.projector import Projector
from nearer.objectives import info_nce, replaced_tokens
from nearer.text.augmentation import Masker
from nearer.text.reading import Reading


class DiffCSESettings(BaseModel):
    """What a DiffCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    generator: str | None = Field(
        None,
        description="a masked language model with the same vocabulary, which stays as it is; null: replaced tokens are "
        "drawn from the batch's own",
    )
    replacement: Literal["sample", "argmax"] = Field(
        "sample", description="which token the generator puts in: drawn from what it predicts, or its first choice"
    )
    replaced: Literal["masked", "all"] = Field(
        "masked", description="which tokens it replaces: the masked ones, or (released code) all but the first"
    )
    mask_rate: float = Field(0.30, gt=0, lt=1, description="share of the tokens that are masked for the generator")
    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    contrastive_weight: Weight = Field(1.0, description="weight of the contrastive loss; 0 leaves it out")
    detection_weight: Weight = Field(0.005, description="λ: weight of the loss on replaced tokens; 0 leaves it out")

    @model_validator(mode="after")
    def _something_to_learn(self) -> Self:
        if not self.contrastive_weight + self.detection_weight:
            raise ValueError("contrastive_weight and detection_weight are both 0")
        return self


FACTS = MethodFacts(
    name="diffcse",
    title="DiffCSE",
    what="Beside SimCSE's contrast, a discriminator that knows a sentence's vector finds tokens that were replaced.",
    needs="sentences, a masked language model (the generator)",
    paper=Paper(
        "chuang2022diffcse",
        "DiffCSE: Difference-based Contrastive Learning for Sentence Embeddings",
        (
            "Chuang, Yung-Sung",
            "Dangovski, Rumen",
            "Luo, Hongyin",
            "Zhang, Yang",
            "Chang, Shiyu",
            "Soljacic, Marin",
            "Li, Shang-Wen",
            "Yih, Wen-tau",
            "Kim, Yoon",
            "Glass, James",
        ),
        "Proceedings of the 2022 Conference of the North American Chapter of the Association for Computational "
        "Linguistics: Human Language Technologies",
        2022,
    ),
    data=("sentences",),
)


class Discriminator(nn.Module):
    """A backbone that sees a sentence's vector in the place of its first token, and two scores for each token."""

    def __init__(self, network: Encoder) -> None:
        super().__init__()
        self.network = network
        self.score = nn.Linear(network.width, 2)

    def states(self, ids: Tensor, mask: Tensor, *, condition: Tensor) -> Tensor:
        first = ids.shape[1] * torch.arange(len(ids), device=ids.device)
        with self.conditioned(condition, first):
            return self.network.states(ids, mask)

    def conditioned(self, condition: Tensor, first: Tensor) -> AbstractContextManager[None]:
        """Within it, the vectors stand where the tokens `first` are: each row's first one."""
        return put_embeddings(self.network.backbone, condition, first)

    def forward(self, states: Tensor) -> Tensor:
        """Scores (tokens, 2) of "kept" and "replaced"."""
        scores: Tensor = self.score(states)
        return scores


class DiffCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = DiffCSESettings
    settings: DiffCSESettings
    generator: Generator | None = None
    discriminator: Discriminator | None = None

    def relies_on_dropout(self, data: str) -> bool:
        return self.settings.contrastive_weight > 0

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        if encoder.head is not None:
            raise SettingError("head: DiffCSE has a projector of its own, for training only; set head=false.")
        width, settings = encoder.width, self.settings
        self.projector = Projector(encoder.dimension, width).to(encoder.device)
        if not settings.detection_weight:
            return []
        if not hasattr(encoder.backbone, "embeddings"):
            kind = type(encoder.backbone).__name__
            raise SettingError(f"method: {kind} has no layer of embeddings that a condition could be put into.")
        network = Encoder(copy.deepcopy(encoder.backbone), encoder.tokenizer, encoder.settings)
        self.discriminator = Discriminator(network).to(encoder.device)
        self.masker = Masker.of(encoder.tokenizer, settings.mask_rate, setting="detection_weight")
        if settings.generator is not None:
            self.generator = load_generator(settings.generator, encoder)
        return []

    def modules(self) -> nn.ModuleDict:
        parts = {"projector": self.projector, "discriminator": self.discriminator, "generator": self.generator}
        return nn.ModuleDict({name: module for name, module in parts.items() if module is not None})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("DiffCSE learns from sentences alone: set data=sentences.")
        rows = [row for row in batch.fields[0] for _ in range(2)]  # both views of a record, one after the other
        passes = {"views": Pass(rows)}
        if not self.settings.detection_weight:
            return Inputs(passes)
        masked = [self.masker(row, batch.random) for row in rows]
        chosen = [marks for _, marks in masked]
        if self.generator is None:
            passes["edited"] = self._edited(self._swapped(rows, chosen, batch.random), rows)
            return Inputs(passes)
        if self.settings.replaced == "all":
            chosen = [np.arange(len(row)) > 0 for row in rows]
        uniform = [batch.random.random(len(row), dtype=np.float32) for row in rows]
        passes["guesses"] = Pass(
            [ids for ids, _ in masked], "generator", "tokens", chosen=chosen, labels={"uniform": uniform}
        )
        passes["edited"] = self._edited(rows, rows, replaces="guesses")
        return Inputs(passes)

    def condition(self, name: str, vectors: Mapping[str, Tensor], modules: Modules) -> Tensor:
        return modules["projector"](vectors["views"])

    def replace(self, name: str, tokens: Tokens, modules: Modules) -> Tensor:
        logits = modules["generator"](tokens.states)
        return logits.argmax(dim=-1) if self.settings.replacement == "argmax" else drawn(logits, tokens)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        projected = modules["projector"](outputs.vectors["views"])
        projected = projected.reshape(-1, 2, projected.shape[-1])  # (batch, 2, width)
        contrastive = info_nce(projected[:, 0], projected[:, 1], temperature=self.settings.temperature)
        if "edited" not in outputs.tokens:
            return Losses(self.settings.contrastive_weight * contrastive, {"contrastive": contrastive})
        edited = outputs.tokens["edited"]
        wrong = edited.ids != edited.labels["right"]
        detection = replaced_tokens(modules["discriminator"](edited.states), wrong, edited.real)
        total = self.settings.contrastive_weight * contrastive + self.settings.detection_weight * detection
        return Losses(total, {"contrastive": contrastive, "detection": detection})

    def identity(self) -> dict[str, str]:
        return {} if self.generator is None else {f"generator: {self.settings.generator}": self.generator.fingerprint}

    def _edited(self, rows: list[Ids], right: list[Ids], replaces: str | None = None) -> Pass:
        return Pass(rows, "discriminator", "tokens", condition="views", replaces=replaces, labels={"right": right})

    def _swapped(self, rows: list[Ids], chosen: list[Any], random: np.random.Generator) -> list[Ids]:
        """Without a generator: tokens of the batch, as often as they stand there."""
        every = np.concatenate(rows)
        every = every[~np.isin(every, self.masker.special)]
        if not len(every):
            return rows
        return [np.where(marks, random.choice(every, len(row)), row) for row, marks in zip(rows, chosen, strict=True)]
