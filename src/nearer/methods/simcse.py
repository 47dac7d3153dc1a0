"""SimCSE: a sentence predicts itself under another dropout mask; or its entailment, against its contradiction.

Unsupervised (sentences): the same tokens pass the encoder twice, and dropout makes the two views differ.
Supervised (pairs, triplets): the second sentence is the positive, the third the hard negative. In lists all from the
third on are hard negatives, such as a contradiction and a neutral sentence.
MultiCSR's third stage is a setting: sentences of the batch that a frozen encoder finds near an anchor are no negatives.
The ablations of the paper are settings.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import LARGEST_WEIGHT, Temperature, Weight
from nearer.methods.contract import Batch, Ids, Inputs, Losses, Method, Modules, Outputs, Pass, Tokens
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.generator import Generator, drawn, load_generator
from nearer.methods.masked_language import MODULE, PASS, MaskedLanguage
from nearer.objectives import info_nce
from nearer.teachers import TeacherList, Teachers
from nearer.teachers.teacher import TeacherLength, longest_for_teachers, reading_remark
from nearer.text.augmentation import Augmenter, Masker
from nearer.text.reading import Reading
from nearer.text.reading_filters import ListedSentences
from nearer.text.shapes import DEBIASED


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
    augmentation: Literal["none", "crop", "word_deletion", "delete_one_word", "word_repetition", "mlm"] = Field(
        "none", description="how the second view of a sentence is changed; mlm: masked tokens are put in by a generator"
    )
    augmentation_rate: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="share of words that crop or word_deletion removes, or mlm replaces; the most of the tokens that "
        "word_repetition doubles",
    )
    generator: str | None = Field(
        None, description="the masked language model of augmentation=mlm, with the same vocabulary; it stays as it is"
    )
    false_negative_threshold: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="sentences of the batch whose cosine with the anchor is above it, by the teachers, are no "
        "negatives (MultiCSR); null: all are",
    )
    teachers: TeacherList = Field(
        default_factory=list,
        description="the frozen encoders behind false_negative_threshold, such as unsupervised SimCSE",
    )
    teacher_max_length: TeacherLength = Field(
        "student",
        description="how many tokens of a text the teachers read: student (as many as the student), whole, or a number",
    )

    @model_validator(mode="after")
    def _teachers_for_masking(self) -> Self:
        if (self.false_negative_threshold is not None) != bool(self.teachers):
            raise ValueError(
                "false_negative_threshold and teachers belong together: name a trained encoder (--teacher MODEL) that "
                "finds false negatives"
            )
        return self

    @model_validator(mode="after")
    def _generator_for_mlm(self) -> Self:
        if (self.augmentation == "mlm") != (self.generator is not None):
            raise ValueError("augmentation=mlm and generator belong together: name a masked language model")
        return self


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
    data=("sentences", "pairs", "triplets", "lists"),
    teachers="optional",
)
SIDES = ("anchors", "positives", "hard_negatives")
MOST_TEXTS = 8  # of a record; each hard negative is one more pass


class SimCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = SimCSESettings
    settings: SimCSESettings

    def __init__(self, settings: SimCSESettings) -> None:
        super().__init__(settings)
        self.second: Encoder | None = None
        self.mlm = MaskedLanguage(settings.mlm_rate) if settings.mlm_weight else None
        self.generator: Generator | None = None
        self.teachers = Teachers(settings.teachers, None)

    def relies_on_dropout(self, data: str) -> bool:
        settings = self.settings
        removes_a_share = settings.augmentation in ("crop", "word_deletion", "word_repetition", "mlm")
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
        if reading is not None and reading.shape == DEBIASED:  # whose further positives would count as hard negatives
            raise InputError(f"{reading.source}: has debiased samples; SimCSE learns from {FACTS.needs}.")
        template = encoder.settings.template
        self.augmenter = Augmenter(
            settings.augmentation,
            settings.augmentation_rate,
            encoder.tokenizer,
            around=None if template is None else (len(template.before), len(template.after)),
            longest=max_length,
        )
        if settings.two_encoders:
            self.second = copy.deepcopy(encoder)
        if self.mlm is not None:
            remarks += self.mlm.prepare(encoder)
        if settings.generator is not None:
            self.generator = load_generator(settings.generator, encoder)
            self.masker = Masker.of(encoder.tokenizer, max(settings.augmentation_rate, 1e-9), setting="augmentation")
        if reading is not None and settings.teachers:
            longest = longest_for_teachers(settings.teacher_max_length, max_length)
            self.teachers.prepare(ListedSentences(reading), encoder.device, longest=longest, progress=progress)
            remarks += reading_remark(self.teachers.members, max_length)
        return remarks

    def modules(self) -> nn.ModuleDict:
        head = None if self.mlm is None else self.mlm.head
        parts = {"second": self.second, MODULE: head, "generator": self.generator}
        return nn.ModuleDict({name: module for name, module in parts.items() if module is not None})

    def inputs(self, batch: Batch) -> Inputs:
        sides = dict(zip(_side_names(len(batch.fields)), self._rows(batch), strict=True))
        names = tuple(sides)
        others = "second" if self.second is not None else "encoder"
        same_masks = "anchors" if self.settings.fixed_masks else None
        passes = {"anchors": Pass(sides.pop("anchors"))}
        passes |= {name: Pass(rows, others, noise_of=same_masks) for name, rows in sides.items()}
        if self.generator is not None and len(batch.fields) == 1:
            passes = self._with_replaced_tokens(passes, batch)
        if self.mlm is not None:
            copies = [ids for name in names for ids in passes[name].rows]
            passes[PASS] = self.mlm.masked(copies, batch)
        return Inputs(passes, self._known(batch))

    def replace(self, name: str, tokens: Tokens, modules: Modules) -> Tensor:
        return drawn(modules["generator"](tokens.states), tokens)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        anchors, positives, *hard_negatives = outputs.vectors.values()
        contrastive = info_nce(
            anchors,
            positives,
            hard_negatives or None,
            temperature=self.settings.temperature,
            hard_negative_weight=self.settings.hard_negative_weight,
            similarity=self.settings.similarity,
            excluded=self._find_false_negatives(given),
        )
        if self.mlm is None:
            return Losses(contrastive, {"contrastive": contrastive})
        mlm = self.mlm.loss(outputs, modules)
        return Losses(contrastive + self.settings.mlm_weight * mlm, {"contrastive": contrastive, "mlm": mlm})

    def identity(self) -> dict[str, str]:
        return self.teachers.identity()

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "teachers": self.teachers.describe()}

    def _known(self, batch: Batch) -> dict[str, NDArray[Any]]:
        """The teachers' vectors of all texts of the whole batch, each (batch, texts, dimension)."""
        texts = len(batch.fields)
        return self.teachers.given(batch.records[:, None] * texts + np.arange(texts))

    def _find_false_negatives(self, given: Mapping[str, Tensor]) -> Tensor | None:
        """(batch, candidates), in the order of `info_nce`: whether the teachers find a candidate near the anchor."""
        if self.settings.false_negative_threshold is None:
            return None
        anchors = {name: vectors[:, 0] for name, vectors in given.items()}
        # (batch, texts, dimension) → (candidates, dimension): all positives, then all hard negatives
        later = {name: vectors[:, 1:] if vectors.shape[1] > 1 else vectors for name, vectors in given.items()}
        candidates = {name: vectors.transpose(0, 1).flatten(0, 1) for name, vectors in later.items()}
        return self.teachers.scores_between(anchors, candidates) > self.settings.false_negative_threshold

    def _rows(self, batch: Batch) -> list[list[Ids]]:
        """Anchors, positives and hard negatives: one of triplets, the rest of lists."""
        if len(batch.fields) > MOST_TEXTS:
            raise InputError(
                f"SimCSE learns from {MOST_TEXTS} texts a record at most: an anchor, a positive and hard negatives; "
                f"{len(batch.fields)} given (list_length={MOST_TEXTS} cuts lists)."
            )
        if len(batch.fields) > 1:
            return [list(rows) for rows in batch.fields]
        rows = list(batch.fields[0])
        return [rows, [self.augmenter(ids, batch.random) for ids in rows]]

    def _with_replaced_tokens(self, passes: dict[str, Pass], batch: Batch) -> dict[str, Pass]:
        """The second view with some tokens as the generator would put them in."""
        rows = passes["positives"].rows
        masked = [self.masker(ids, batch.random) for ids in rows]
        uniform = [batch.random.random(len(ids), dtype=np.float32) for ids in rows]
        guesses = Pass(
            [ids for ids, _ in masked],
            "generator",
            "tokens",
            chosen=[chosen for _, chosen in masked],
            labels={"uniform": uniform},
        )
        positives = replace(passes["positives"], replaces="guesses")
        return {"anchors": passes["anchors"], "guesses": guesses, "positives": positives}


def _side_names(fields: int) -> list[str]:
    more = [f"hard_negatives {number}" for number in range(2, fields - 1)]
    return [*SIDES[: max(2, fields)], *more]
