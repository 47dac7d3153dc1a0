"""RankCSE: both views of a sentence rank the others alike, and as the teachers do.

L = L_InfoNCE + β · L_consistency + γ · L_rank  (Eq. 6), all three on the one matrix of cosines of the first views
against the second. The ablations of the paper are weights of 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs
from nearer.methods.facts import ACL_2023, MethodFacts, Paper
from nearer.methods.momentum_queue import MomentumQueue, QueueSettings
from nearer.methods.sentence_views import SentenceViews, SentenceViewSettings
from nearer.objectives import contrast, info_nce, list_mle, list_net, ranking_consistency
from nearer.objectives.similarity import similarities
from nearer.teachers import TeacherList, Teachers
from nearer.teachers.teacher import TeacherLength, longest_for_teachers, reading_remark
from nearer.text.reading import Reading


class RankCSESettings(QueueSettings, SentenceViewSettings):
    """What a RankCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    teachers: TeacherList = Field(
        default_factory=list,
        description="encoders to learn from, which stay as they are: a name, or {model, pooling, max_length, …}",
    )
    teacher_max_length: TeacherLength = Field(
        "student",
        description="how many tokens of a text teachers read: student (as many as the student), whole, or a number",
    )
    teacher_weights: list[float] | None = Field(
        None, description="how much each teacher counts (α, 1 − α …); null: all alike"
    )
    ranking: Literal["list_net", "list_mle"] = Field(
        "list_net", description="the ranking loss: ListNet (Eq. 4) or ListMLE (Eq. 5)"
    )
    temperature: Temperature = Field(0.05, description="τ1: temperature of the contrastive and the consistency loss")
    student_temperature: Temperature = Field(
        0.025, description="τ2: temperature of the student's similarities in the ranking loss"
    )
    teacher_temperature: Temperature = Field(
        0.0125, description="τ3: temperature of the teachers' similarities; ListNet only"
    )
    contrastive_weight: Weight = Field(1.0, description="weight of the contrastive loss; 0 leaves it out")
    consistency_weight: Weight = Field(1.0, description="β: weight of the consistency loss; 0 leaves it out")
    ranking_weight: Weight = Field(
        1.0, description="γ: weight of the ranking loss; 0 leaves it out, and teachers with it"
    )
    keep_diagonal: bool = Field(
        False, description="rank a sentence's own positive too (the paper's footnote leaves it out)"
    )

    @model_validator(mode="after")
    def _something_to_learn(self) -> Self:
        if not self.contrastive_weight + self.consistency_weight + self.ranking_weight:
            raise ValueError("contrastive_weight, consistency_weight and ranking_weight are all 0")
        if self.ranking_weight and not self.teachers:
            raise ValueError("teachers: none named; --teacher MODEL, or ranking_weight 0 to learn without")
        if self.queue_size and not self.contrastive_weight:
            raise ValueError("queue_size: negatives are for the contrastive loss, whose contrastive_weight is 0")
        if self.queue_size and self.second_template is not None:
            raise ValueError("queue_size: queued vectors do not pass the head that comes with second_template")
        Teachers(self.teachers, self.teacher_weights)
        return self


FACTS = MethodFacts(
    name="rankcse",
    title="RankCSE",
    what="Beside the contrast, both views of a batch are to rank its sentences alike, and as the teachers do.",
    needs="sentences, teachers (any encoders)",
    paper=Paper(
        "liu2023rankcse",
        "RankCSE: Unsupervised Sentence Representations Learning via Learning to Rank",
        (
            "Liu, Jiduan",
            "Liu, Jiahao",
            "Wang, Qifan",
            "Wang, Jingang",
            "Wu, Wei",
            "Xian, Yunsen",
            "Zhao, Dongyan",
            "Chen, Kai",
            "Yan, Rui",
        ),
        ACL_2023,
        2023,
    ),
    data=("sentences",),
    teachers="some",
)


class RankCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = RankCSESettings
    settings: RankCSESettings
    views: SentenceViews
    queue: MomentumQueue | None = None

    def __init__(self, settings: RankCSESettings) -> None:
        super().__init__(settings)
        ranks = settings.ranking_weight > 0
        self.teachers = Teachers(settings.teachers if ranks else [], settings.teacher_weights if ranks else None)

    def relies_on_dropout(self, data: str) -> bool:
        # the ranking alone has the teachers to learn from, whatever the views
        contrasts = self.settings.contrastive_weight or self.settings.consistency_weight
        return bool(contrasts) and self.settings.views_differ_by_dropout

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        longest = longest_for_teachers(self.settings.teacher_max_length, max_length)
        self.teachers.prepare(reading, encoder.device, longest=longest, wanted=self.seen, progress=progress)
        if self.settings.queue_size:
            self.queue = MomentumQueue(self.settings, encoder)
        self.views = SentenceViews(encoder, self.settings, max_length, may_be_one=True)
        return reading_remark(self.teachers.members, max_length)

    def followed_teachers(self) -> Teachers | None:
        return self.teachers if self.teachers.settings else None

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({**self.views.modules(), **({} if self.queue is None else self.queue.modules())})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("RankCSE learns from sentences alone: set data=sentences.")
        rows = batch.fields[0]
        given = self.teachers.given(batch.records)
        if self.settings.ranking == "list_mle" and given:
            # in which order sentences stand that a teacher finds equally near
            given["tie_breaker"] = batch.common_random.random(len(batch.records), dtype="float32")
        queued = {} if self.queue is None else self.queue.passes(rows)
        return Inputs({**self.views.passes(rows, batch.random), **queued}, given)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        settings = self.settings
        parts: dict[str, Tensor] = {}
        weights = {
            "contrastive": settings.contrastive_weight,
            "consistency": settings.consistency_weight,
            "ranking": settings.ranking_weight,
        }
        first, second = self.views.vectors(outputs.vectors, modules)
        scores = similarities(first, second)
        parts["contrastive"] = contrast(scores / settings.temperature)
        if self.queue is not None:
            negatives = self.queue.negatives()
            parts["contrastive"] = info_nce(first, second, temperature=settings.temperature, more_negatives=negatives)
        if settings.consistency_weight:
            parts["consistency"] = ranking_consistency(scores, temperature=settings.temperature)
        if settings.ranking_weight:
            parts["ranking"] = self._ranking(scores, given)
        total = sum((weights[name] * part for name, part in parts.items()), start=scores.new_zeros(()))
        return Losses(total, parts, {} if self.queue is None else self.queue.kept(outputs.vectors))

    def remember(self, kept: Mapping[str, Tensor]) -> None:
        assert self.queue is not None
        self.queue.remember(kept)

    def _ranking(self, scores: Tensor, given: Mapping[str, Tensor]) -> Tensor:
        settings, wanted = self.settings, self.teachers.scores(given)
        if settings.ranking == "list_net":
            return list_net(
                scores,
                wanted,
                student_temperature=settings.student_temperature,
                teacher_temperature=settings.teacher_temperature,
                keep_diagonal=settings.keep_diagonal,
            )
        return list_mle(
            scores,
            wanted,
            student_temperature=settings.student_temperature,
            tie_breaker=given["tie_breaker"].expand_as(wanted),
            keep_diagonal=settings.keep_diagonal,
        )

    def identity(self) -> dict[str, str]:
        return self.teachers.identity()
