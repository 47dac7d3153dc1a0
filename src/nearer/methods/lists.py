"""Scored lists: an encoder learns to order passages for a query as a judge does, whose scores come with the lists.

A step takes some queries, and of each one's list some passages, half of them from the best. Within each list the
student learns the judge's distribution (ListNet), its order (ListMLE) or its margins (GPL). Over all passages of the
batch it learns a teacher's distribution or, without a teacher, to find the best passage of the list. It can also learn
where teachers' vectors lie, turned into its own space.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import normalize

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import (
    Batch,
    Ids,
    Inputs,
    Losses,
    Method,
    Modules,
    Outputs,
    Pass,
    RecordForm,
    Saveable,
)
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.list_sampling import draw_ranks, find_listed
from nearer.objectives import best_of_list, list_mle, list_net, margin_mse
from nearer.objectives.similarity import at_least_float32, similarities
from nearer.teachers import TeacherList, Teachers, TeacherSettings
from nearer.teachers.alignment import Alignment, fit_alignment, sample_rows
from nearer.teachers.teacher import TeacherLength, longest_for_teachers, reading_remark, teacher_precision
from nearer.text.batches import Topics
from nearer.text.reading import Reading
from nearer.text.scored_lists import Lists, QueriesAndPassages, ScoredLists
from nearer.text.token_store import open_store
from nearer.text.tokenise import length_for


class ListsSettings(BaseModel):
    """What a recipe of scored lists can set beside the loop's settings. `max_length` is where passages are cut."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    loss: Literal["list_net", "list_mle", "margin"] = Field(
        "list_net", description="what is learnt of a list: the judge's distribution, its order, or its margins (GPL)"
    )
    similarity: Literal["cosine", "dot"] = Field("cosine", description="how a query and a passage are compared")
    passages_per_query: int = Field(8, ge=2, le=10_000, description="passages of a list that a step draws")
    from_top: int | None = Field(
        None, ge=1, le=10_000, description="how many of them are drawn from the best; null: half"
    )
    top: int = Field(10, ge=1, le=10_000, description="how many passages of a list count as the best")
    negative_band: list[float] = Field(
        default_factory=lambda: [0.0, 1.0],
        description="the others are drawn between these quantiles of the list: [0, 0.9] spares the best tenth of it",
    )
    standardise: bool = Field(
        True, description="give the scores of each list mean 0 and variance 1; false: as they are (GPL)"
    )
    target_temperature: Temperature = Field(0.5, description="the judge's scores are divided by it")
    student_temperature: Temperature = Field(0.05, description="the student's similarities are divided by it")
    in_batch_weight: Weight = Field(
        1.0, description="weight of the loss over all passages of the batch; 0 leaves it, and teachers, out"
    )
    teachers: TeacherList = Field(
        default_factory=list,
        description="encoders whose order of all passages of the batch is learnt; none: the list's best is to be found",
    )
    teacher_max_length: TeacherLength = Field(
        "student",
        description="how many tokens of a text teachers read: student (as many as the student), whole, or a number",
    )
    teacher_weights: list[float] | None = Field(None, description="how much each teacher counts; null: all alike")
    teacher_temperature: Temperature = Field(0.05, description="the teachers' similarities are divided by it")
    passage_weight: Weight = Field(
        0.0,
        description="weight of a loss between passages: each of the batch is to order the others as the teachers do; "
        "0 leaves it out",
    )
    vector_weight: Weight = Field(
        0.0,
        description="weight of the distance (1 - cosine) to the teachers' vectors, turned into the student's space; "
        "0: only their order is learnt",
    )
    false_negatives: float | None = Field(
        0.95,
        gt=0,
        le=10,
        description="without teachers: a passage is no negative if the untrained model gives it more than this share "
        "of the best one's score; null: only the list's own passages are none",
    )
    topic_size: int | None = Field(
        None,
        ge=2,
        le=1_000_000,
        description="so many queries of a batch are alike, by the teachers, and with them the passages whose order is "
        "learnt; null: all are drawn at random",
    )
    query_max_length: int | None = Field(
        None, ge=3, le=1_000_000, description="queries are cut after so many tokens; null: long enough for 95 % of them"
    )
    query_prompt: str | None = Field(
        None, description="text before each query; null: the model's own prompt for queries, if it has one"
    )
    passage_prompt: str | None = Field(
        None, description="text before each passage; null: the model's own prompt for documents, if it has one"
    )

    @property
    def best_drawn(self) -> int:
        return self.passages_per_query // 2 if self.from_top is None else self.from_top

    @property
    def contrasts(self) -> bool:
        """Whether the list's best passage is to be found in the batch."""
        return self.in_batch_weight > 0 and not self.teachers

    @property
    def asks_teachers(self) -> bool:
        return self.in_batch_weight > 0 or self.vector_weight > 0 or self.passage_weight > 0

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.best_drawn > min(self.passages_per_query, self.top):
            raise ValueError(
                f"from_top {self.best_drawn} is above passages_per_query {self.passages_per_query} or top {self.top}"
            )
        if len(self.negative_band) != 2 or not 0 <= self.negative_band[0] < self.negative_band[1] <= 1:
            raise ValueError(f"negative_band {self.negative_band} must be two quantiles, such as [0, 0.9]")
        for name in ("passage_weight", "vector_weight"):
            if getattr(self, name) and not self.teachers:
                raise ValueError(f"{name} needs a teacher to learn from (--teacher)")
        if self.topic_size and not (self.teachers and self.asks_teachers):
            raise ValueError("topic_size needs a teacher that says which queries are alike (--teacher)")
        Teachers(self.teachers, self.teacher_weights)
        return self


FACTS = MethodFacts(
    name="lists",
    title="Scored lists",
    what="Passages are to stand in a judge's order for a query: by its distribution, its order or its margins.",
    needs="queries, and passages for each with scores of any judge",
    paper=Paper(
        "cao2007listnet",
        "Learning to Rank: From Pairwise Approach to Listwise Approach",
        ("Cao, Zhe", "Qin, Tao", "Liu, Tie-Yan", "Tsai, Ming-Feng", "Li, Hang"),
        "Proceedings of the 24th International Conference on Machine Learning",
        2007,
    ),
    data=("scored",),
    teachers="optional",
    views=1,
)
QUERY_PROMPTS, PASSAGE_PROMPTS = ("query",), ("document", "passage", "corpus")


class ScoredListsTraining(Method):
    """The method as the loop sees it. Records are queries; passages have tokens of their own."""

    facts = FACTS
    Settings = ListsSettings
    draws_rows = True
    settings: ListsSettings

    def __init__(self, settings: ListsSettings) -> None:
        super().__init__(settings)
        self.teachers = Teachers([], None)
        self.alignment: Alignment | None = None

    def record_form(self, encoder: Encoder, reading: Reading[Any], max_length: int) -> RecordForm:
        prompt = _prompt(encoder, self.settings.query_prompt, QUERY_PROMPTS, "query_prompt")
        asked = self.settings.query_max_length
        if asked is not None and asked > max_length:
            raise SettingError(f"query_max_length: {asked} is above max_length ({max_length}).")
        texts = (prompt + query for query in reading)
        length = asked or length_for(texts, encoder.tokenizer, longest=max_length)
        return RecordForm(length, prompt, "query_max_length")

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        settings = self.settings
        if not isinstance(reading, ScoredLists):
            raise InputError(f"{reading.source}: is read as {reading.shape.plural}; method lists needs data=scored.")
        longest = max_length or encoder.settings.max_length
        self.lists = reading.lists
        scores = self.lists.standardised() if settings.standardise else self.lists.scores
        self.scores = scores.astype(np.float32)
        self.prompts = {
            "query": _prompt(encoder, settings.query_prompt, QUERY_PROMPTS, "query_prompt"),
            "document": _prompt(encoder, settings.passage_prompt, PASSAGE_PROMPTS, "passage_prompt"),
        }
        self.tokens = open_store(
            reading.passages(),
            encoder.tokenizer,
            max_length=longest,
            text_normalisation=encoder.settings.text_normalisation,
            prompt=self.prompts["document"],
            progress=progress,
        )
        remarks = _account(reading, self.lists, settings.passages_per_query)
        if self.tokens.cut:
            counted = f"{self.tokens.cut:,} of {self.tokens.sentences:,}"
            remarks.append(f"{counted} passages are cut at {longest} tokens (max_length)")
        named = settings.teachers if settings.asks_teachers else []
        if settings.contrasts and settings.false_negatives is not None:
            named = [TeacherSettings.of_student(encoder)]
        self.teachers = Teachers(named, settings.teacher_weights if settings.teachers and named else None)
        read = longest_for_teachers(settings.teacher_max_length, longest)
        texts = QueriesAndPassages(reading)
        self.teachers.prepare(texts, encoder.device, longest=read, progress=progress)
        if settings.vector_weight:
            self.alignment = self._align(encoder, texts)
        return remarks + reading_remark(self.teachers.members, longest)

    def inputs(self, batch: Batch) -> Inputs:
        queries = batch.fields[0]
        starts, ends = self.lists.starts[batch.records], self.lists.starts[batch.records + 1]
        # drawn for the whole batch, so that all processes know the same; best first
        entries = starts[:, None] + draw_ranks(ends - starts, self.settings, batch.common_random)  # (batch, list)
        passages, wanted = self.lists.passages[entries], self.scores[entries]
        own = passages[batch.first : batch.first + len(queries)].reshape(-1)
        passes = {"queries": Pass(queries), "passages": Pass([self._passage(number) for number in own])}
        given: dict[str, NDArray[Any]] = {"wanted": wanted}
        if self.settings.loss == "list_mle":  # in which order passages stand that the judge finds equally good
            given["tie_breaker"] = batch.common_random.random(wanted.shape, dtype=np.float32)
        if self.settings.contrasts:
            given["excluded"] = find_listed(self.lists, batch.records, passages.reshape(-1))
        if self.settings.asks_teachers:
            for side, rows in (("query", batch.records), ("passage", len(self.lists) + passages.reshape(-1))):
                given |= {f"{side} {name}": vectors for name, vectors in self.teachers.given(rows).items()}
        return Inputs(passes, given)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        settings, wanted = self.settings, given["wanted"]
        scores = similarities(outputs.vectors["queries"], outputs.vectors["passages"], settings.similarity)
        queries, size = wanted.shape
        first = size * torch.arange(queries, device=scores.device)  # the column of each query's best drawn passage
        own = scores.gather(1, first[:, None] + torch.arange(size, device=scores.device))  # (queries, list)
        parts = {"ranking": self._ranking(own, wanted, given)}
        total = parts["ranking"]
        if settings.in_batch_weight:
            parts["in_batch"] = self._in_batch(scores, first, given)
            total = total + settings.in_batch_weight * parts["in_batch"]
        if settings.passage_weight:
            parts["passages"] = self._between_passages(outputs.vectors["passages"], given)
            total = total + settings.passage_weight * parts["passages"]
        if settings.vector_weight:
            parts["vectors"] = self._distance(outputs, given, modules)
            total = total + settings.vector_weight * parts["vectors"]
        return Losses(total, parts)

    def topics(self) -> Topics | None:
        if self.settings.topic_size is None:
            return None
        given = self.teachers.given(np.arange(len(self.lists)))
        known = self.teachers.join_vectors({name: torch.from_numpy(each) for name, each in given.items()})
        return Topics(known.numpy(), self.settings.topic_size)

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({} if self.alignment is None else {"alignment": self.alignment})

    def identity(self) -> dict[str, str]:
        return self.teachers.identity()

    def finished(self, encoder: Encoder, *, progress: bool = False) -> Saveable:
        """With the prompts that it was trained with."""
        prompts = {name: text for name, text in self.prompts.items() if text}
        if prompts:
            encoder.settings = replace(encoder.settings, prompts={**encoder.settings.prompts, **prompts})
        return encoder

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "passages": self.tokens.sentences, "teachers": self.teachers.describe()}

    def _align(self, encoder: Encoder, texts: QueriesAndPassages) -> Alignment:
        """By what the untrained student makes of some of the texts."""
        count = len(self.lists) + self.tokens.sentences
        rows = sample_rows(count)
        chosen, queries = set(rows.tolist()), len(self.lists)
        sides = (self.prompts["query"], self.prompts["document"])
        sample = [sides[number >= queries] + text for number, text in enumerate(texts) if number in chosen]
        known = self.teachers.join_vectors(
            {name: torch.from_numpy(each) for name, each in self.teachers.given(rows).items()}
        )
        precision = teacher_precision(encoder.device)
        own = encoder.encode(sample, normalize=True, precision=precision)
        return Alignment(fit_alignment(known.numpy(), own)).to(encoder.device)

    def _distance(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Tensor:
        """The mean of 1 - cosine between a text's vector and the teachers', of queries and of passages alike."""
        distances = []
        for side, name in (("query ", "queries"), ("passage ", "passages")):
            wanted = modules["alignment"](self.teachers.join_vectors(_of_side(side, given)))
            own = normalize(at_least_float32(outputs.vectors[name]), dim=-1)
            distances.append(1 - (own * wanted).sum(dim=-1).mean())
        return torch.stack(distances).mean()

    def _passage(self, number: int) -> Ids:
        return self.tokens[int(number)].astype(np.int64)

    def _ranking(self, own: Tensor, wanted: Tensor, given: Mapping[str, Tensor]) -> Tensor:
        settings = self.settings
        target = wanted / settings.target_temperature
        if settings.loss == "margin":
            return margin_mse(own / settings.student_temperature, target)
        if settings.loss == "list_mle":
            return list_mle(
                own,
                target,
                student_temperature=settings.student_temperature,
                tie_breaker=given["tie_breaker"],
                keep_diagonal=True,
            )
        return list_net(
            own, target, student_temperature=settings.student_temperature, teacher_temperature=1.0, keep_diagonal=True
        )

    def _in_batch(self, scores: Tensor, first: Tensor, given: Mapping[str, Tensor]) -> Tensor:
        settings, known = self.settings, None
        if self.teachers.members:
            known = self.teachers.scores_between(_of_side("query ", given), _of_side("passage ", given))
        if not settings.contrasts:
            assert known is not None
            return list_net(
                scores,
                known,
                student_temperature=settings.student_temperature,
                teacher_temperature=settings.teacher_temperature,
                keep_diagonal=True,
            )
        excluded = given["excluded"]
        if known is not None and settings.false_negatives is not None:
            best = known.gather(1, first[:, None])
            excluded = excluded | (known > best - (1 - settings.false_negatives) * best.abs())
        return best_of_list(scores, first, excluded, temperature=settings.student_temperature)

    def _between_passages(self, passages: Tensor, given: Mapping[str, Tensor]) -> Tensor:
        settings = self.settings
        known = _of_side("passage ", given)
        return list_net(
            similarities(passages, passages, settings.similarity),
            self.teachers.scores_between(known, known),
            student_temperature=settings.student_temperature,
            teacher_temperature=settings.teacher_temperature,
        )


def _of_side(side: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The teachers' vectors of queries or of passages, by teacher."""
    return {name.removeprefix(side): vectors for name, vectors in given.items() if name.startswith(side)}


def _prompt(encoder: Encoder, asked: str | None, names: tuple[str, ...], setting: str) -> str:
    own = encoder.settings.prompts
    prompt = next((own[name] for name in names if name in own), "") if asked is None else asked
    if prompt and not encoder.settings.pool_prompt:
        raise SettingError(
            f"{setting}: {encoder.name} leaves prompts out of its pooling, which is not trained here; set {setting}=''."
        )
    return prompt


def _account(reading: ScoredLists, lists: Lists, drawn: int) -> list[str]:
    """What is in the lists, and what was wrong with some."""
    lengths = lists.lengths
    size = f"{lengths.min():,}" if lengths.min() == lengths.max() else f"{lengths.min():,} to {lengths.max():,}"
    remark = (
        f"{len(lists):,} lists of {size} passages ({reading.passage_count:,} different); a step draws {drawn} of each"
    )
    report = reading.report
    return [remark, *([str(report)] if report.tallies or report.notes else [])]
