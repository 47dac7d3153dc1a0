"""DCLR: random noise as more negatives, and no negative that another model holds for a second positive.

L = InfoNCE(h_i, h_i⁺) with noise n_k as more negatives, in which sentence j is no negative of i where a frozen model's
cosine of both is above φ. The noise is moved along the gradient of the contrast first, so that it is harder.

The released code computes another loss (`variant: released`): a cross-entropy for each entry of the softmax, in which
an excluded pair stays with e^0. It also gives padding to the encoder without its mask, which is a mistake and cannot
be had here. Assumed: the frozen model has no dropout, and the gradient is that of the plain contrast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import Temperature
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import harder_noise, info_nce, noise_cross_entropy
from nearer.teachers import TeacherList, Teachers
from nearer.teachers.teacher import TeacherLength, longest_for_teachers, reading_remark
from nearer.text.reading import Reading


class DCLRSettings(BaseModel):
    """What a DCLR recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    teachers: TeacherList = Field(
        default_factory=list,
        description="the model that tells false negatives, one, which stays as it is: a name, or {model, pooling, …}",
    )
    teacher_max_length: TeacherLength = Field(
        "student",
        description="how many tokens of a text it reads: student (as many as the student), whole, or a number",
    )
    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    false_negative: float = Field(
        0.9, ge=-1, le=1, description="φ: above this cosine by the other model, a sentence is no negative; 1: all are"
    )
    noise_times: float = Field(
        1.0, ge=0, le=100, description="noise vectors for each sentence of the batch; 0: none are negatives"
    )
    noise_steps: int = Field(4, ge=0, le=100, description="how often noise is moved along the gradient")
    noise_step: float = Field(1e-3, gt=0, le=100, description="how far it is moved each time")
    variant: Literal["paper", "released"] = Field(
        "paper",
        description="paper: weighted InfoNCE; released: a cross-entropy for each entry of the softmax, in which "
        "excluded pairs stay with e^0",
    )

    @model_validator(mode="after")
    def _one_teacher(self) -> Self:
        if self.false_negative < 1 and len(self.teachers) != 1:
            raise ValueError(
                f"teachers: {len(self.teachers)} given; one is needed, which tells false negatives (--teacher MODEL), "
                "or false_negative 1 to learn without"
            )
        return self


FACTS = MethodFacts(
    name="dclr",
    title="DCLR",
    what="As SimCSE, with noise as more negatives, and without those negatives that another model holds for positives.",
    needs="sentences, a first encoder",
    paper=Paper(
        "zhou2022debiased",
        "Debiased Contrastive Learning of Unsupervised Sentence Representations",
        ("Zhou, Kun", "Zhang, Beichen", "Zhao, Xin", "Wen, Ji-Rong"),
        "Proceedings of the 60th Annual Meeting of the Association for Computational Linguistics (Volume 1: Long "
        "Papers)",
        2022,
    ),
    data=("sentences",),
    teachers="one",
)


class DCLR(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = DCLRSettings
    settings: DCLRSettings
    dimension = 0

    def __init__(self, settings: DCLRSettings) -> None:
        super().__init__(settings)
        self.teachers = Teachers(settings.teachers if settings.false_negative < 1 else [], None)

    def relies_on_dropout(self, data: str) -> bool:
        return True

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        self.dimension = encoder.dimension
        longest = longest_for_teachers(self.settings.teacher_max_length, max_length)
        self.teachers.prepare(reading, encoder.device, longest=longest, wanted=self.seen, progress=progress)
        return reading_remark(self.teachers.members, max_length)

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("DCLR learns from sentences alone: set data=sentences.")
        rows, given = batch.fields[0], self.teachers.given(batch.records)
        count = int(self.settings.noise_times * len(batch.records))
        given["noise"] = batch.common_random.standard_normal((count, self.dimension), dtype="float32")
        return Inputs({"anchors": Pass(rows), "positives": Pass(rows)}, given)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        settings = self.settings
        anchors, positives = outputs.vectors["anchors"], outputs.vectors["positives"]
        noise = harder_noise(
            anchors,
            positives,
            given["noise"],
            temperature=settings.temperature,
            steps=settings.noise_steps if len(given["noise"]) else 0,
            size=settings.noise_step,
        )
        if settings.false_negative < 1:
            excluded = self.teachers.scores(given) > settings.false_negative
        else:
            excluded = torch.zeros(len(anchors), len(anchors), dtype=torch.bool, device=anchors.device)
        if settings.variant == "released":
            contrastive = noise_cross_entropy(anchors, positives, noise, excluded, temperature=settings.temperature)
        else:
            all_real = torch.ones(len(noise), dtype=torch.bool, device=noise.device)
            contrastive = info_nce(
                anchors,
                positives,
                temperature=settings.temperature,
                excluded=excluded,
                more_negatives=(noise, all_real),
            )
        return Losses(contrastive, {"contrastive": contrastive})

    def identity(self) -> dict[str, str]:
        return self.teachers.identity()
