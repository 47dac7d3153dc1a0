"""Scored lists: an encoder learns to order passages for a query as a judge does, whose scores come with the lists.

A step takes some queries, and of each one's list some passages, half of them from the best. Within each list the
student learns the judge's distribution (ListNet), its order (ListMLE) or its margins (GPL). Over all passages of the
batch it learns a teacher's distribution or, without a teacher, to find the best passage of the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

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
from nearer.objectives import best_of_list, list_mle, list_net, margin_mse
from nearer.objectives.similarity import similarities
from nearer.teachers import TeacherList, Teachers, TeacherSettings
from nearer.teachers.teacher import TeacherLength, longest_for_teachers, reading_remark
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
    false_negatives: float | None = Field(
        0.95,
        gt=0,
        le=10,
        description="without teachers: a passage is no negative if the untrained model gives it more than this share "
        "of the best one's score; null: only the list's own passages are none",
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

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.best_drawn > min(self.passages_per_query, self.top):
            raise ValueError(
                f"from_top {self.best_drawn} is above passages_per_query {self.passages_per_query} or top {self.top}"
            )
        if len(self.negative_band) != 2 or not 0 <= self.negative_band[0] < self.negative_band[1] <= 1:
            raise ValueError(f"negative_band {self.negative_band} must be two quantiles, such as [0, 0.9]")
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
        named = settings.teachers if settings.in_batch_weight else []
        if settings.contrasts and settings.false_negatives is not None:
            named = [TeacherSettings.of_student(encoder)]
        self.teachers = Teachers(named, settings.teacher_weights if settings.teachers and named else None)
        read = longest_for_teachers(settings.teacher_max_length, longest)
        self.teachers.prepare(QueriesAndPassages(reading), encoder.device, longest=read, progress=progress)
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
            given["excluded"] = self._in_own_list(batch.records, passages.reshape(-1))
        if self.settings.in_batch_weight:
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
        return Losses(total, parts)

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

    def _passage(self, number: int) -> Ids:
        return self.tokens[int(number)].astype(np.int64)

    def _in_own_list(self, records: NDArray[np.int64], passages: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(records, passages): whether a passage stands in a record's list, drawn or not."""
        starts, listed = self.lists.starts, self.lists.passages
        found = np.zeros((len(records), len(passages)), dtype=bool)
        marked = np.zeros(self.tokens.sentences, dtype=bool)
        for row, record in enumerate(records):
            own = listed[starts[record] : starts[record + 1]]
            marked[own] = True
            found[row] = marked[passages]
            marked[own] = False
        return found

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
            sides = [{name.removeprefix(side): each for name, each in given.items()} for side in ("query ", "passage ")]
            known = self.teachers.scores_between(*sides)  # (queries, passages)
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


def draw_ranks(counts: NDArray[np.int64], settings: ListsSettings, random: np.random.Generator) -> NDArray[np.int64]:
    """Ranks (lists, drawn), from 0 and rising, of the passages that a step uses of lists of so many each."""
    others = settings.passages_per_query - settings.best_drawn
    top = np.minimum(settings.top, counts - others)  # a short list has fewer that count as the best
    best = _draw_between(np.zeros_like(top), top, settings.best_drawn, random)
    if settings.contrasts:  # the list's best has to be found, so it has to be there
        best[(best != 0).all(axis=1), 0] = 0
    lower, upper = settings.negative_band
    start = np.maximum(top, np.rint((1 - upper) * (counts - 1)).astype(np.int64))
    end = np.rint((1 - lower) * (counts - 1)).astype(np.int64) + 1
    too_few = end - start < others  # in the band
    rest = _draw_between(np.where(too_few, top, start), np.where(too_few, counts, end), others, random)
    return np.sort(np.concatenate([best, rest], axis=1), axis=1)


def _draw_between(
    start: NDArray[np.int64], end: NDArray[np.int64], count: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """(lists, count): for each list different whole numbers from `start` to below `end`."""
    spans = end - start
    keys = random.random((len(spans), int(spans.max())))
    keys[np.arange(keys.shape[1]) >= spans[:, None]] = 2  # beyond the list's own: never among the smallest
    drawn: NDArray[np.int64] = start[:, None] + np.argsort(keys, axis=1)[:, :count]
    return drawn


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
