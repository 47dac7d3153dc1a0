"""RankEncoder: an encoder learns how alike a first one (E1) finds two sentences' views of a whole corpus.

Two sentences are compared by the order in which E1 sees the corpus from each of them (Eq. 2, 3). E2 learns these
similarities (Eq. 6) beside the contrastive loss (Eq. 5); at inference its own rank vectors are mixed in (Eq. 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import ConfigDict, Field, model_validator
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Saveable
from nearer.methods.facts import ACL_2023, MethodFacts, Paper
from nearer.methods.masked_language import MODULE, PASS, MaskedLanguage
from nearer.methods.sentence_views import SentenceViews, SentenceViewSettings
from nearer.objectives import contrast, rank_regression
from nearer.objectives.similarity import similarities
from nearer.teachers import CorpusCovariance, CorpusRanks, RankEncoder, Teacher, TeacherList
from nearer.teachers.rank_vectors import sample_indices
from nearer.teachers.teacher import TeacherLength, longest_for_teachers, reading_remark, teacher_identity
from nearer.text.reading import Reading
from nearer.units import LARGEST_SEED

RELEASED_UPPER = 0.9999
# Ranks are held for every sentence of the batch
LARGEST_CORPUS = 100_000_000


class RankEncoderSettings(SentenceViewSettings):
    """What a RankEncoder recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    teachers: TeacherList = Field(
        default_factory=list, description="the first encoder, E1: a name, or {model, pooling, …}"
    )
    teacher_max_length: TeacherLength = Field(
        "student",
        description="how many tokens of a text E1 reads: student (as many as the student), whole, or a number",
    )
    corpus_size: int = Field(
        100_000, ge=2, le=LARGEST_CORPUS, description="how many sentences of the training text E1 ranks"
    )
    corpus_seed: int = Field(
        0, ge=0, le=LARGEST_SEED, description="decides which sentences E1 ranks; runs with different seeds share them"
    )
    approximate: bool = Field(
        False, description="estimate rank similarities from the corpus' covariance instead of ranking"
    )
    temperature: Temperature = Field(0.05, description="τ of the contrastive loss")
    rank_weight: Weight = Field(0.05, description="λ_train: weight of the loss that compares rank similarities")
    lower_threshold: float = Field(0.5, ge=-1, le=1, description="τ_l: pairs with a lower rank similarity are left out")
    upper_threshold: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="τ_u: pairs with a higher one are left out; null: 0.8 (paper) or 0.9999 (released)",
    )
    mlm_weight: Weight = Field(0.0, description="weight of a masked language loss beside both; 0 leaves it out")
    mlm_rate: float = Field(0.15, gt=0, lt=1, description="share of tokens that are masked")
    variant: Literal["paper", "released"] = Field(
        "paper",
        description="paper: follow the larger of the two losses; released: their sum, as the released code does",
    )
    inference_weight: float = Field(
        0.1,
        ge=0,
        le=1,
        description="λ_inf: how much rank similarity counts in the finished model; 0 saves a plain encoder",
    )

    @property
    def upper(self) -> float:
        usual = 0.8 if self.variant == "paper" else RELEASED_UPPER
        return usual if self.upper_threshold is None else self.upper_threshold

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if len(self.teachers) != 1:
            raise ValueError(f"teachers: {len(self.teachers)} given; one is needed, E1 (--teacher MODEL)")
        if self.lower_threshold > self.upper:
            raise ValueError(f"lower_threshold {self.lower_threshold} is above upper_threshold {self.upper}")
        return self


FACTS = MethodFacts(
    name="rankencoder",
    title="RankEncoder",
    what="Two sentences are alike if they see a corpus in the same order; the encoder learns these similarities.",
    needs="sentences, a first encoder",
    paper=Paper(
        "seonwoo2023rankencoder",
        "Ranking-Enhanced Unsupervised Sentence Representation Learning",
        (
            "Seonwoo, Yeon",
            "Wang, Guoyin",
            "Seo, Changmin",
            "Choudhary, Sajal",
            "Li, Jiwei",
            "Li, Xiang",
            "Xu, Puyang",
            "Park, Sunghyun",
            "Oh, Alice",
        ),
        ACL_2023,
        2023,
    ),
    data=("sentences",),
    teachers="one",
    saves="an encoder with a corpus to rank, or the encoder alone (inference_weight 0)",
)


class RankEncoderTraining(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = RankEncoderSettings
    settings: RankEncoderSettings
    views: SentenceViews

    def __init__(self, settings: RankEncoderSettings) -> None:
        super().__init__(settings)
        self.mlm = MaskedLanguage(settings.mlm_rate) if settings.mlm_weight else None

    def relies_on_dropout(self, data: str) -> bool:
        return self.settings.views_differ_by_dropout

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({**self.views.modules(), **({} if self.mlm is None else {MODULE: self.mlm.head})})

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        settings = self.settings
        longest = longest_for_teachers(settings.teacher_max_length, max_length)
        self.teacher = Teacher(settings.teachers[0], encoder.device, longest=longest)
        self.teacher.learn(reading, progress=progress)
        self.reading = reading
        _, first_of_a_kind = np.unique(self.teacher.rows, return_index=True)
        self.sampled = sample_indices(first_of_a_kind, settings.corpus_size, settings.corpus_seed)
        corpus = torch.from_numpy(self.teacher.of(self.sampled)).to(encoder.device).float()
        self.ranks = CorpusCovariance(corpus) if settings.approximate else CorpusRanks(corpus)
        remarks = reading_remark([self.teacher], max_length)
        self.views = SentenceViews(encoder, settings, max_length)
        if self.mlm is not None:
            remarks += self.mlm.prepare(encoder)
        if len(self.sampled) < settings.corpus_size:
            remarks.append(f"corpus_size: the text has {len(self.sampled):,} different sentences; all are ranked")
        return remarks

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("RankEncoder learns from sentences alone: set data=sentences.")
        rows = batch.fields[0]
        passes = self.views.passes(rows, batch.random)
        if self.mlm is not None:
            passes[PASS] = self.mlm.masked([*rows, *rows], batch)
        return Inputs(passes, {"teacher": self.teacher.of(batch.records)})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        settings = self.settings
        scores = similarities(*self.views.vectors(outputs.vectors, modules))
        contrastive = contrast(scores / settings.temperature)
        with torch.no_grad():
            wanted = self.ranks.similarities(given["teacher"], given["teacher"])
        ranking = rank_regression(scores, wanted, lower=settings.lower_threshold, upper=settings.upper)
        weighted = settings.rank_weight * ranking
        total = torch.maximum(weighted, contrastive) if settings.variant == "paper" else weighted + contrastive
        parts = {"contrastive": contrastive, "ranking": ranking}
        if self.mlm is not None:
            parts["mlm"] = self.mlm.loss(outputs, modules)
            total = total + settings.mlm_weight * parts["mlm"]
        return Losses(total, parts)

    def identity(self) -> dict[str, str]:
        return teacher_identity([self.teacher])

    def finished(self, encoder: Encoder, *, progress: bool = False) -> Saveable:
        if not self.settings.inference_weight:
            return encoder
        chosen = set(self.sampled.tolist())
        sentences = [sentence for record, sentence in enumerate(self.reading) if record in chosen]
        return RankEncoder.build(
            encoder,
            sentences,
            inference_weight=self.settings.inference_weight,
            approximate=self.settings.approximate,
            progress=progress,
        )
