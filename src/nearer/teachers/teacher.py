"""Teachers: frozen encoders whose opinion of the training sentences is kept on disk and handed to each step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from torch import Tensor
from torch.nn.functional import normalize

from nearer.encoder import Encoder
from nearer.encoder.pickles import is_converted
from nearer.encoder.pooling import check_pooling
from nearer.encoder.template import named_template
from nearer.errors import PoolingError, SettingError
from nearer.teachers.vector_store import Rows, VectorStore, Workforce
from nearer.text.reading import Reading
from nearer.text.tokenise import normalisation


class TeacherSettings(BaseModel):
    """A teacher, by name alone or with what a plain checkpoint leaves open. It has its own tokenizer and pooling."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: str = Field(min_length=1, description="a folder, a bundled name or a hub name")
    pooling: str | None = Field(None, description="how its vectors are made; needed for a plain checkpoint")
    max_length: int | None = Field(
        None,
        ge=3,
        le=1_000_000,
        description="how many tokens of a text it reads; null: the recipe's teacher_max_length",
    )
    text_normalisation: str | None = Field(None, description="lowercase, full_stop or none; null: as the model says")
    template: str | None = Field(None, description="text around each sentence; null: as the model says")
    pooler_as_head: bool = Field(False, description="use the checkpoint's own pooling layer")
    allow_pickle: bool = Field(False, description="read pickled weights (.bin); nothing in them is run")

    @field_validator("pooling")
    @classmethod
    def _known_pooling(cls, pooling: str | None) -> str | None:
        return None if pooling is None else check_pooling(pooling)

    @field_validator("template")
    @classmethod
    def _known_template(cls, template: str | None) -> str | None:
        return None if template is None else named_template(template)

    @field_validator("text_normalisation")
    @classmethod
    def _known_normalisation(cls, name: str | None) -> str | None:
        if name is not None:
            normalisation(name)
        return name

    @classmethod
    def of_student(cls, encoder: Encoder) -> TeacherSettings:
        """The student itself before training: loaded for itself, since the encoder at hand is going to change."""
        pickled = encoder.source is not None and is_converted(encoder.source)  # which was allowed, or it were not here
        template = None if encoder.settings.template is None else encoder.settings.template.text
        named = {"model": encoder.name, "pooling": encoder.settings.pooling, "template": template}
        return cls.model_validate({**named, "allow_pickle": pickled})

    def load(self, device: torch.device, longest: int | None = None) -> Encoder:
        """longest: tokens at which it cuts sentences, unless its own settings or its size say less; None: its own."""
        options = self.model_dump(exclude={"model"})
        try:
            encoder = Encoder.load(self.model, device=device, **options)
        except PoolingError:
            raise PoolingError(
                f"teacher {self.model}: a plain checkpoint, which does not say how its vectors are pooled; name the "
                f"pooling: --pooling mean (embed), --set 'teachers=[{{model: {self.model}, pooling: mean}}]' (train)."
            ) from None
        if self.max_length is None and longest is not None:
            settings = encoder.settings
            encoder.settings = replace(settings, max_length=min(settings.max_length, longest))
        return encoder


def _named(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, (str, Mapping)) else value


def _each_once(teachers: list[TeacherSettings]) -> list[TeacherSettings]:
    for teacher in teachers:
        if teachers.count(teacher) > 1:
            raise ValueError(f"{teacher.model} is given twice; teacher_weights says how much one counts")
    return teachers


TeacherList = Annotated[
    list[Annotated[TeacherSettings, BeforeValidator(_named)]], BeforeValidator(_listed), AfterValidator(_each_once)
]
# Tokens of a sentence that teachers read: as many as the student, all that they can, or so many
TeacherLength = Literal["student", "whole"] | Annotated[int, Field(ge=3, le=1_000_000)]


def longest_for_teachers(asked: TeacherLength, student: int | None) -> int | None:
    """None: whole sentences, as far as a teacher can read them."""
    if isinstance(asked, int):
        return asked
    return student if asked == "student" else None


def reading_remark(teachers: Sequence[Teacher], student: int | None) -> list[str]:
    """What the user should know where teachers do not read what the student reads. student: its max_length."""
    lengths = sorted({teacher.max_length for teacher in teachers})
    if student is None or not lengths or lengths == [student]:
        return []
    theirs = " and ".join(f"{length:,}" for length in lengths)
    return [
        f"teachers read the first {theirs} tokens of a sentence, the student the first {student:,}; "
        "teacher_max_length sets theirs (student, whole, or a number)"
    ]


def teacher_precision(device: torch.device) -> str:
    """What teachers compute in: they are asked once, and their cosines are taken in float32 all the same."""
    return "bf16" if device.type == "cuda" else "float32"


class Teacher:
    """One teacher's vectors of the training sentences."""

    def __init__(
        self,
        settings: TeacherSettings,
        device: torch.device,
        workforce: Workforce | None = None,
        *,
        longest: int | None = None,
    ) -> None:
        """workforce: who encodes instead of this process, by the encoder it was given; `device` is then not used.

        longest: see `TeacherSettings.load`.
        """
        self.settings = settings
        if workforce is None:
            self.store = VectorStore(settings.load(device, longest), precision=teacher_precision(device))
        else:
            precision = teacher_precision(workforce.device)
            self.store = VectorStore(workforce.encoder, precision=precision, workforce=workforce)
        self.fingerprint = self.store.fingerprint
        self.rows: Rows = np.zeros(0, dtype=np.int64)
        self.vectors: NDArray[np.float16] = np.zeros((0, 0), dtype=np.float16)

    @property
    def max_length(self) -> int:
        """How many tokens of a sentence it reads."""
        return self.store.encoder.settings.max_length

    def learn(self, reading: Reading[str], *, wanted: NDArray[np.bool_] | None = None, progress: bool = False) -> None:
        """Encode what is not known yet of the training sentences. wanted: which of them `of` will be asked for."""
        self.rows = self.store.rows(reading, wanted=wanted, progress=progress)
        self.vectors = self.store.vectors()
        self.store.encoder.set_aside()  # it has said all it will say; the student needs the room

    def of(self, records: NDArray[np.int64]) -> NDArray[np.float16]:
        """Its vectors of these sentences (sentences, dimension), of length 1."""
        rows = self.rows[records]
        assert (rows >= 0).all(), "asked for sentences that were not wanted when it learnt"
        return self.vectors[rows]


def teacher_identity(teachers: Sequence[Teacher]) -> dict[str, str]:
    """By number and name, what they are."""
    named = enumerate(teachers, start=1)
    return {f"teacher {number}: {teacher.settings.model}": teacher.fingerprint for number, teacher in named}


class Teachers:
    """Several teachers, whose cosines are averaged by weight: Sᵀ(x_i) = Σ_t α_t · S_tᵀ(x_i)."""

    def __init__(self, settings: Sequence[TeacherSettings], weights: Sequence[float] | None) -> None:
        if weights is not None and len(weights) != len(settings):
            raise SettingError(f"teacher_weights: {len(weights)} given for {len(settings)} teachers.")
        given = [1.0] * len(settings) if weights is None else list(weights)
        if any(weight < 0 for weight in given) or (given and not 0 < sum(given) < math.inf):
            raise SettingError(f"teacher_weights: {given} must be finite, not below 0, and not all 0.")
        self.settings = settings
        self.weights = [weight / sum(given) for weight in given]
        self.members: list[Teacher] = []

    def prepare(
        self,
        reading: Reading[str],
        device: torch.device,
        *,
        longest: int | None = None,
        wanted: NDArray[np.bool_] | None = None,
        progress: bool = False,
    ) -> None:
        """longest: see `TeacherSettings.load`; wanted: see `Teacher.learn`."""
        self.members = []
        for settings in self.settings:
            teacher = Teacher(settings, device, longest=longest)
            teacher.learn(reading, wanted=wanted, progress=progress)
            self.members.append(teacher)

    def cosines(self, texts: Sequence[str], device: torch.device) -> NDArray[np.float32]:
        """The averaged cosines (texts, texts) of a few texts that nothing is learnt from; teachers read whole ones."""
        found = np.zeros((len(texts), len(texts)), dtype=np.float32)
        for settings, weight in zip(self.settings, self.weights, strict=True):
            encoder = settings.load(device)
            vectors = encoder.encode(texts, normalize=True, precision=teacher_precision(device))
            found += weight * (vectors @ vectors.T)
        return found

    def given(self, records: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What a step needs of them. Of records (lists, list) it comes in lists too."""
        return {f"teacher{number}": teacher.of(records) for number, teacher in enumerate(self.members)}

    def scores(self, given: Mapping[str, Tensor]) -> Tensor:
        """The averaged cosines (sentences, sentences), in float32; of lists (lists, list, list), within each list."""
        found: Tensor | None = None
        for number, weight in enumerate(self.weights):
            vectors = normalize(given[f"teacher{number}"].float(), dim=-1)
            cosines = weight * (vectors @ vectors.mT)
            found = cosines if found is None else found + cosines
        assert found is not None
        return found

    def scores_between(self, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Tensor:
        """The averaged cosines (first, second) of what `given` gave for two sets of sentences, in float32."""
        found: Tensor | None = None
        for number, weight in enumerate(self.weights):
            sides = (normalize(each[f"teacher{number}"].float(), dim=-1) for each in (first, second))
            rows, columns = sides
            cosines = weight * (rows @ columns.mT)
            found = cosines if found is None else found + cosines
        assert found is not None
        return found

    def join_vectors(self, given: Mapping[str, Tensor]) -> Tensor:
        """One vector (texts, all dimensions) of each text, whose products are the averaged cosines, in float32."""
        of_each = enumerate(self.weights)
        return torch.cat(
            [weight**0.5 * normalize(given[f"teacher{n}"].float(), dim=-1) for n, weight in of_each], dim=-1
        )

    def identity(self) -> dict[str, str]:
        return teacher_identity(self.members)

    def describe(self) -> list[dict[str, Any]]:
        return [
            {**settings.model_dump(exclude_defaults=True), "weight": weight}
            for settings, weight in zip(self.settings, self.weights, strict=True)
        ]
