"""What a method is to the loop: it says which sentences are encoded, and how the loss follows from their vectors.

How they are encoded (padded or packed, compiled, captured, in pieces, on several processes) is none of its business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.text.reading import Reading

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """One process' part of a batch.

    fields: the token ids of its records, by field (a sentence has one, a pair two, a triplet three) and row;
    records: the places of the whole batch's records in the corpus; random: draws for this step and process alone;
    common_random: draws for this step that are the same in all processes.
    """

    fields: Sequence[Sequence[Ids]]
    records: NDArray[np.int64]
    random: np.random.Generator
    common_random: np.random.Generator


@dataclass(frozen=True)
class View:
    """Sentences to encode, one for each record of the batch; by the encoder, or by one of the method's modules."""

    rows: Sequence[Ids]
    encoder: str = "encoder"


@dataclass(frozen=True)
class MaskedTokens:
    """Rows with masked tokens, which pass the encoder too; `chosen` marks the places to predict, `targets` has them."""

    rows: Sequence[Ids]
    chosen: Sequence[NDArray[np.bool_]]
    targets: Sequence[Ids]
    weight: float


@dataclass(frozen=True)
class Inputs:
    """What a step computes on.

    given: arrays of the whole batch (not of this process' part alone) that the loss needs besides vectors, such as
    the teachers' rows; same_noise: all views pass under the same dropout masks.
    """

    views: Sequence[View]
    given: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    masked: MaskedTokens | None = None
    same_noise: bool = False


@dataclass(frozen=True)
class Losses:
    """The loss to follow, and the named parts it is made of for the log."""

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)


class Saveable(Protocol):
    """What a run ends with: an encoder, or something around one."""

    def save(self, folder: str | Path) -> None: ...


class Method(ABC):
    """A method's settings become an object of this kind; the loop knows nothing else of it."""

    def relies_on_dropout(self, data: str) -> bool:
        """Whether two views of a record differ by dropout alone. data: what the recipe's records are."""
        return False

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        """Make ready what the method needs besides the encoder; returns remarks for the user.

        reading: the training text, whose record n is the batches' record n. max_length: tokens at which the encoder's
        training sentences are cut; None: where it cuts them at inference.
        """
        return []

    def modules(self) -> nn.ModuleDict:
        """What is trained and checkpointed besides the encoder."""
        return nn.ModuleDict()

    @abstractmethod
    def inputs(self, batch: Batch) -> Inputs:
        """On the host, in a thread of its own, ahead of the step: no tensors here."""

    @abstractmethod
    def loss(self, vectors: Sequence[Tensor], given: Mapping[str, Tensor]) -> Losses:
        """From the vectors of each view (whole batch, dimension). Tensors alone: it is replayed without Python."""

    def token_loss(self, modules: nn.ModuleDict, words: Tensor, states: Tensor, targets: Tensor) -> Tensor:
        """The summed loss of predicting masked tokens, for methods whose inputs have some.

        modules: those of the method, as they are trained; words: the backbone's word embeddings; states (tokens,
        width); targets (tokens,), −100 where there is nothing to predict.
        """
        raise NotImplementedError

    def identity(self) -> dict[str, str]:
        """By name, digests of what the method learns from besides the corpus: a run goes on only with the same."""
        return {}

    def finished(self, encoder: Encoder, *, progress: bool = False) -> Saveable:
        """What is saved at the end of a run: the trained encoder, or what is used for inference around it."""
        return encoder

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What a saved model should say about how it was trained."""
