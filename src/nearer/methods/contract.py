"""What a method is to the loop: batches in, losses out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.encoder import Encoder

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """One process' part of a batch.

    fields: the token ids of its records, by field (a sentence has one, a pair two, a triplet three) and row;
    records: the places of the whole batch's records in the corpus; counts: how many of them each process has;
    random: draws for this step and process alone; pad: token rows to tensors (ids, mask) on the right device.
    """

    fields: Sequence[Sequence[Ids]]
    records: NDArray[np.int64]
    counts: Sequence[int]
    random: np.random.Generator
    pad: Callable[[Sequence[Ids]], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Losses:
    """The loss to follow, and the named parts it is made of for the log."""

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)


class Method(Protocol):
    """A method's settings become an object of this kind; the loop knows nothing else of it."""

    def prepare(self, encoder: Encoder) -> list[str]:
        """Make ready what the method needs besides the encoder; returns remarks for the user."""

    def modules(self) -> nn.ModuleDict:
        """What is trained and checkpointed besides the encoder."""

    def loss(self, encoder: Encoder, batch: Batch) -> Losses: ...

    def describe(self) -> dict[str, Any]:
        """What a saved model should say about how it was trained."""
