"""RankCSE's objectives as losses for sentence-transformers' own trainer.

    from nearer.integrations.sentence_transformers import RankCSELoss, teacher_labels

    dataset = teacher_labels(Dataset.from_dict({"sentence": sentences}), teacher)
    SentenceTransformerTrainer(model=model, args=args, train_dataset=dataset, loss=RankCSELoss(model)).train()

A loss there is given tokens, never text, so a teacher cannot run inside it: what it thinks comes as labels. In the
in-batch form a sentence's list is the batch. The data set has one text column, which passes the model twice so that
dropout makes two views, or two (anchor, positive). The student's scores are the cosines of first against second views.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from nearer.errors import SettingError
from nearer.integrations.loss_base import (
    Loss,
    LossBase,
    batch_scores,
    check_settings,
    given_scores,
    list_scores,
    teacher_labels,
    teacher_scores,
)
from nearer.objectives import contrast, list_mle, list_net, ranking_consistency

__all__ = ["ListMLELoss", "ListNetLoss", "RankCSELoss", "RankingConsistencyLoss", "teacher_labels"]

Labels = Literal["embeddings", "scores"]
Ranking = Literal["list_net", "list_mle"]

# RankCSE, Table 7, BERT-base
TEMPERATURE = 0.05  # τ1
STUDENT_TEMPERATURE = {"list_net": 0.025, "list_mle": 0.05}  # τ2
TEACHER_TEMPERATURE = 0.0125  # τ3


class Ranks(Protocol):
    """A ranking loss of the student's and the teacher's scores, both (sentences, list)."""

    def __call__(self, student: Tensor, teacher: Tensor, /, *, keep_diagonal: bool) -> Tensor: ...


class SeededListMLE:
    """ListMLE whose ties are broken at random: the same seed, the same orders."""

    def __init__(self, student_temperature: float, seed: int) -> None:
        self.student_temperature = student_temperature
        # on the CPU, so that a seed means the same on all machines
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, student: Tensor, teacher: Tensor, /, *, keep_diagonal: bool) -> Tensor:
        drawn = torch.rand(teacher.shape, generator=self.generator).to(teacher.device)
        return list_mle(
            student,
            teacher,
            student_temperature=self.student_temperature,
            tie_breaker=drawn,
            keep_diagonal=keep_diagonal,
        )


class ListwiseLoss(LossBase):
    """The student's lists against the teacher's, which come as labels in one of two forms."""

    ranks: Ranks

    def __init__(self, model: nn.Module, *, labels: Labels, keep_diagonal: bool, **settings: Any) -> None:
        super().__init__(model, labels=labels, keep_diagonal=keep_diagonal, **settings)
        self.columns_are_lists = labels == "scores"
        self.keep_diagonal = keep_diagonal

    def compute_loss_from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        if self.columns_are_lists:
            student = list_scores(embeddings)
            return self.ranks(student, given_scores(labels, student), keep_diagonal=True)
        student = batch_scores(embeddings)
        return self.ranks(student, teacher_scores(labels, student), keep_diagonal=self.keep_diagonal)


class ListNetLoss(ListwiseLoss):
    """ListNet (RankCSE, Eq. 4): the student's top-one distribution over each list is taught to be the teacher's.

    labels="embeddings": the in-batch form. Labels are the teacher's embeddings of the sentences, (batch, dimension), or
    (batch, 2, dimension) for anchors and positives; `teacher_labels` makes them. The diagonal, each sentence against
    its own second view, is left out unless `keep_diagonal`.
    labels="scores": columns are query, candidate_1 … candidate_n, labels the teacher's scores (batch, n) of the
    candidates. The whole list counts.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        labels: Labels = "embeddings",
        student_temperature: float = STUDENT_TEMPERATURE["list_net"],
        teacher_temperature: float = TEACHER_TEMPERATURE,
        keep_diagonal: bool = False,
    ) -> None:
        temperatures: dict[str, Any] = {
            "student_temperature": student_temperature,
            "teacher_temperature": teacher_temperature,
        }
        super().__init__(model, labels=labels, keep_diagonal=keep_diagonal, **temperatures)
        self.ranks = partial(list_net, **temperatures)


class ListMLELoss(ListwiseLoss):
    """ListMLE (RankCSE, Eq. 5): the likelihood, by the student's scores, of the teacher's whole order.

    Columns and labels are those of `ListNetLoss`; of the teacher's scores only the order counts. seed: draws the order
    of equal scores.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        labels: Labels = "embeddings",
        student_temperature: float = STUDENT_TEMPERATURE["list_mle"],
        keep_diagonal: bool = False,
        seed: int = 0,
    ) -> None:
        settings: dict[str, Any] = {"student_temperature": student_temperature, "seed": seed}
        super().__init__(model, labels=labels, keep_diagonal=keep_diagonal, **settings)
        self.ranks = SeededListMLE(**settings)


class RankingConsistencyLoss(LossBase):
    """Ranking consistency (RankCSE, Eq. 2): both views of a sentence rank the batch alike. Labels are not looked at."""

    def __init__(self, model: nn.Module, *, temperature: float = TEMPERATURE) -> None:
        super().__init__(model, temperature=temperature)
        self.temperature = temperature

    def compute_loss_from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        return ranking_consistency(batch_scores(embeddings), temperature=self.temperature)


class RankCSELoss(LossBase):
    """RankCSE whole (Eq. 6) from one encoding: InfoNCE + β · ranking consistency + γ · ranking distillation.

    In-batch, with the teacher's embeddings as labels (see `ListNetLoss`). temperature: τ1, of InfoNCE and consistency;
    student_temperature and teacher_temperature: τ2 and τ3, None for the paper's (list_mle has no τ3). A part of weight
    0 is not computed; without ranking no labels are needed. log_parts: give the weighted parts by name, which the
    trainer adds up and logs one by one; a loss around this one, such as MatryoshkaLoss, needs the sum.
    """

    def __init__(
        self,
        model: nn.Module,
        ranking: Ranking = "list_net",
        *,
        temperature: float = TEMPERATURE,
        student_temperature: float | None = None,
        teacher_temperature: float | None = None,
        contrastive_weight: float = 1.0,
        consistency_weight: float = 1.0,
        ranking_weight: float = 1.0,
        keep_diagonal: bool = False,
        seed: int = 0,
        log_parts: bool = False,
    ) -> None:
        check_settings(ranking=ranking)
        if student_temperature is None:
            student_temperature = STUDENT_TEMPERATURE[ranking]
        temperatures: dict[str, Any] = {"student_temperature": student_temperature}
        if ranking == "list_net":
            given = teacher_temperature is not None
            temperatures["teacher_temperature"] = teacher_temperature if given else TEACHER_TEMPERATURE
        elif teacher_temperature is not None:
            raise SettingError("teacher_temperature: list_mle looks at the teacher's order only; leave it out.")
        weights = {
            "contrastive_weight": contrastive_weight,
            "consistency_weight": consistency_weight,
            "ranking_weight": ranking_weight,
        }
        super().__init__(
            model,
            ranking=ranking,
            temperature=temperature,
            **temperatures,
            **weights,
            keep_diagonal=keep_diagonal,
            seed=seed,
            log_parts=log_parts,
        )
        if not any(weights.values()):
            raise SettingError(f"{', '.join(weights)}: all are 0, nothing is left to learn.")
        self.temperature = temperature
        self.weights = weights
        self.keep_diagonal = keep_diagonal
        self.log_parts = log_parts
        self.ranks: Ranks = (
            partial(list_net, **temperatures) if ranking == "list_net" else SeededListMLE(**temperatures, seed=seed)
        )

    def compute_loss_from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Loss:
        student = batch_scores(embeddings)
        parts: dict[str, Tensor] = {}
        if weight := self.weights["contrastive_weight"]:
            parts["contrastive"] = weight * contrast(student / self.temperature)
        if weight := self.weights["consistency_weight"]:
            parts["consistency"] = weight * ranking_consistency(student, temperature=self.temperature)
        if weight := self.weights["ranking_weight"]:
            teacher = teacher_scores(labels, student)
            parts["ranking"] = weight * self.ranks(student, teacher, keep_diagonal=self.keep_diagonal)
        return parts if self.log_parts else torch.stack(list(parts.values())).sum()
