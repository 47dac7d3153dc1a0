"""Teachers: frozen encoders whose opinion of the training sentences is kept on disk and handed to each step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from torch import Tensor
from torch.nn.functional import normalize

from nearer.encoder import Encoder
from nearer.errors import PoolingError, SettingError
from nearer.teachers.vector_store import Rows, VectorStore, Workforce
from nearer.text.reading import Reading


class TeacherSettings(BaseModel):
    """A teacher, by name alone or with what a plain checkpoint leaves open. It has its own tokenizer and pooling."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(description="a folder, a bundled name or a hub name")
    pooling: str | None = Field(None, description="needed for a plain checkpoint")
    max_length: int | None = Field(None, ge=3)
    text_normalisation: str | None = None
    pooler_as_head: bool = False
    allow_pickle: bool = Field(False, description="read pickled weights (.bin); nothing in them is run")

    def load(self, device: torch.device) -> Encoder:
        options = self.model_dump(exclude={"model"})
        try:
            return Encoder.load(self.model, device=device, **options)
        except PoolingError:
            raise PoolingError(
                f"teacher {self.model}: a plain checkpoint, which does not say how its vectors are pooled; name the "
                f"pooling: --pooling mean (embed), --set 'teachers=[{{model: {self.model}, pooling: mean}}]' (train)."
            ) from None


def _named(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, (str, Mapping)) else value


TeacherList = Annotated[list[Annotated[TeacherSettings, BeforeValidator(_named)]], BeforeValidator(_listed)]


def teacher_precision(device: torch.device) -> str:
    """What teachers compute in: they are asked once, and their cosines are taken in float32 all the same."""
    return "bf16" if device.type == "cuda" else "float32"


class Teacher:
    """One teacher's vectors of the training sentences."""

    def __init__(self, settings: TeacherSettings, device: torch.device, workforce: Workforce | None = None) -> None:
        """workforce: who encodes in place of this process, by the encoder it was given; `device` is then not used."""
        self.settings = settings
        if workforce is None:
            self.store = VectorStore(settings.load(device), precision=teacher_precision(device))
        else:
            precision = teacher_precision(workforce.device)
            self.store = VectorStore(workforce.encoder, precision=precision, workforce=workforce)
        self.fingerprint = self.store.fingerprint
        self.rows: Rows = np.zeros(0, dtype=np.int64)
        self.vectors: NDArray[np.float16] = np.zeros((0, 0), dtype=np.float16)

    def learn(self, reading: Reading[str], *, progress: bool = False) -> None:
        """Encode what is not known yet of the training sentences."""
        self.rows = self.store.rows(reading, progress=progress)
        self.vectors = self.store.vectors()
        self.store.encoder.set_aside()  # it has said all it will say; the student needs the room

    def of(self, records: NDArray[np.int64]) -> NDArray[np.float16]:
        """Its vectors of these sentences (sentences, dimension), of length 1."""
        return self.vectors[self.rows[records]]


def teacher_identity(teachers: Sequence[Teacher]) -> dict[str, str]:
    """By place and name, what they are."""
    named = enumerate(teachers, start=1)
    return {f"teacher {place}: {teacher.settings.model}": teacher.fingerprint for place, teacher in named}


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

    def prepare(self, reading: Reading[str], device: torch.device, *, progress: bool = False) -> None:
        self.members = []
        for settings in self.settings:
            teacher = Teacher(settings, device)
            teacher.learn(reading, progress=progress)
            self.members.append(teacher)

    def given(self, records: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What a step needs of them. Of records (lists, list) it comes in lists too."""
        return {f"teacher{place}": teacher.of(records) for place, teacher in enumerate(self.members)}

    def scores(self, given: Mapping[str, Tensor]) -> Tensor:
        """The averaged cosines (sentences, sentences), in float32; of lists (lists, list, list), within each list."""
        found: Tensor | None = None
        for place, weight in enumerate(self.weights):
            vectors = normalize(given[f"teacher{place}"].float(), dim=-1)
            cosines = weight * (vectors @ vectors.mT)
            found = cosines if found is None else found + cosines
        assert found is not None
        return found

    def identity(self) -> dict[str, str]:
        return teacher_identity(self.members)

    def describe(self) -> list[dict[str, Any]]:
        return [
            {**settings.model_dump(exclude_defaults=True), "weight": weight}
            for settings, weight in zip(self.settings, self.weights, strict=True)
        ]
