"""Refinement: a trained encoder learns from ranking lists, whose order and a judge's similarities are fused.

Ranking sentences, §3.2 (post-training): Φ, the judge's cosines within a list, becomes Φ̂ by the list's order (Eq. 6, 7),
and the encoder learns the order of Φ̂'s rows (Eq. 8). There is no contrast with other lists, so a batch may be one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from torch import Tensor

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import fused_ranking, list_order
from nearer.objectives.fused_ranking import Variant
from nearer.objectives.similarity import similarities
from nearer.teachers import TeacherList, Teachers, TeacherSettings
from nearer.teachers.teacher import TeacherLength, longest_for_teachers, reading_remark
from nearer.text.reading import Reading
from nearer.text.reading_filters import ListedSentences
from nearer.text.shapes import RANKING_LISTS


class RefinementSettings(BaseModel):
    """What a refinement recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    teachers: TeacherList = Field(
        default_factory=list,
        description="the judge: a name, or {model, pooling, …}; none: the model itself before training",
    )
    teacher_max_length: TeacherLength = Field(
        "student",
        description="how many tokens of a text the judge reads: student (as many as the student), whole, or a number",
    )
    teacher_weights: list[float] | None = Field(
        None, description="how much each of several judges counts; null: all alike"
    )
    target: Literal["fused", "order"] = Field(
        "fused",
        description="what is learnt: the judge's scores moved by the list's order, or the order alone",
    )
    rank_strength: Weight = Field(0.5, description="ω: how far the list's order moves the judge's similarities")
    student_temperature: Temperature = Field(
        0.05, description="τ2: temperature of the model's similarities; the released code has 0.05, Eq. 8 none (1)"
    )
    teacher_temperature: Temperature = Field(
        1.0, description="temperature of the judge's similarities; the smaller, the less the list's order counts"
    )
    keep_diagonal: bool = Field(True, description="rank a sentence's similarity with itself too, as Eq. 8 does")
    variant: Variant = Field(
        "paper", description="how the order moves similarities: as in Eq. 6 (paper), or as in the released code"
    )
    shuffle_lists: Literal["none", "once", "anew"] = Field(
        "none",
        description="put the sentences after the first into random order (ablation c of Table 3): once, as the paper "
        "does, each list into an order of its own that stays; or anew (also: true) in every step",
    )

    @field_validator("shuffle_lists", mode="before")
    @classmethod
    def _yes_is_anew(cls, value: Any) -> Any:
        return ("anew" if value else "none") if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _sound_weights(self) -> Self:
        if self.target == "order" and self.teachers:
            raise ValueError("target=order learns from the lists alone: name no judge (teachers)")
        Teachers(self.teachers, self.teacher_weights)
        return self


ORDER_ONCE = 3  # a stream of its own
FACTS = MethodFacts(
    name="refine",
    title="Refinement by ranking sentences",
    what="A trained encoder learns the order of generated sentences, each of which lies further from the first.",
    needs="a trained encoder, ranking lists by a language model, a judge",
    paper=Paper(
        "he2025refining",
        "Refining Sentence Embedding Model through Ranking Sentences Generation with Large Language Models",
        (
            "He, Liyang",
            "Liu, Chenglong",
            "Li, Rui",
            "Huang, Zhenya",
            "Ruan, Shulan",
            "Zhou, Jun",
            "Chen, Enhong",
        ),
        "Findings of the Association for Computational Linguistics: ACL 2025",
        2025,
    ),
    data=("lists",),
    teachers="optional",
    views=1,
)


class Refinement(Method):
    """The method as the loop sees it. Pass k is the k-th sentence of each list of the batch."""

    facts = FACTS
    Settings = RefinementSettings
    settings: RefinementSettings

    def __init__(self, settings: RefinementSettings) -> None:
        super().__init__(settings)
        self.judges = Teachers(settings.teachers, settings.teacher_weights)

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        if reading.shape != RANKING_LISTS:
            raise InputError(f"{reading.source}: is read as {reading.shape.plural}; refinement needs data=lists.")
        remarks: list[str] = []
        if self.settings.target == "order":
            return remarks
        if not self.settings.teachers:
            self.judges = Teachers([TeacherSettings.of_student(encoder)], None)
            remarks.append("no judge named (--teacher MODEL): the model as it is before training judges the lists")
        longest = longest_for_teachers(self.settings.teacher_max_length, max_length)
        self.judges.prepare(ListedSentences(reading), encoder.device, longest=longest, progress=progress)
        return remarks + reading_remark(self.judges.members, max_length)

    def inputs(self, batch: Batch) -> Inputs:
        size = len(batch.fields)
        if size < (2 if self.settings.keep_diagonal and self.settings.target == "fused" else 3):
            raise InputError(
                f"lists of {size}: leave nothing to rank; keep_diagonal=false and target=order need 3 at least."
            )
        places = np.tile(np.arange(size), (len(batch.records), 1))  # (lists, list)
        given: dict[str, NDArray[Any]] = {}
        if self.settings.shuffle_lists == "anew":
            places[:, 1:] = batch.common_random.permuted(places[:, 1:], axis=1)
        elif self.settings.shuffle_lists == "once":
            for row, record in zip(places, batch.records, strict=True):
                row[1:] = _draw_order_once(int(record), size)
        if self.settings.shuffle_lists != "none":
            given["order"] = places
        if self.settings.target == "fused":
            given |= self.judges.given(batch.records[:, None] * size + places)
        return Inputs({f"sentence {number}": Pass(rows) for number, rows in enumerate(batch.fields)}, given)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        settings = self.settings
        lists = torch.stack(list(outputs.vectors.values()), dim=1)  # (lists, list, dimension)
        if "order" in given:
            lists = lists.gather(1, given["order"][..., None].expand_as(lists))
        if settings.target == "order":
            order = list_order(similarities(lists, lists), student_temperature=settings.student_temperature)
            return Losses(order, {"ranking": order})
        ranking = fused_ranking(
            similarities(lists, lists),
            self.judges.scores(given) / settings.teacher_temperature,
            rank_strength=settings.rank_strength,
            student_temperature=settings.student_temperature,
            variant=settings.variant,
            keep_diagonal=settings.keep_diagonal,
        )
        return Losses(ranking, {"ranking": ranking})

    def identity(self) -> dict[str, str]:
        return self.judges.identity()

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "teachers": self.judges.describe()}


def _draw_order_once(record: int, size: int) -> NDArray[np.int64]:
    """The indices 1 … size − 1 in an order that follows from the list's number alone: of all epochs and all seeds, as
    if the file itself had been shuffled."""
    return 1 + np.random.default_rng([ORDER_ONCE, record]).permutation(size - 1)
