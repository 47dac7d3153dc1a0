"""Parts that any contrastive method can have: an encoder that follows the trained one, and a queue of its vectors.

A batch's negatives are few. The queue adds the vectors of the last batches, computed by an encoder that changes slowly,
so that old vectors can be compared with new ones (MoCo; for sentences ESimCSE).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from pydantic import BaseModel, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.methods.contract import Ids, Pass

PASS = "queued"  # the pass of the following encoder, and what the loss keeps of it
LARGEST_QUEUE = 1 << 20


class QueueSettings(BaseModel):
    """What a recipe can set of the queue, for methods that have one."""

    queue_size: int = Field(
        0, ge=0, le=LARGEST_QUEUE, description="vectors of earlier batches that are negatives too; 0: none"
    )
    queue_momentum: float = Field(
        0.995, ge=0, le=1, description="λ: how slowly the encoder of the queue's vectors follows the trained one"
    )


class Follower:
    """A copy of an encoder that is not trained but follows it:  θ' ← λ θ' + (1 − λ) θ .

    encoder: the copy, without dropout. Its head, where it has one, follows as well and is always applied, as it is to
    the vectors of training that it is compared with.
    """

    def __init__(self, leader: Encoder, momentum: float) -> None:
        self.momentum = momentum
        self.encoder = copy.deepcopy(leader).requires_grad_(False).eval()
        if self.encoder.head is not None and not self.encoder.keeps_head:
            self.encoder.settings = replace(self.encoder.settings, pooling="cls")
        self.leading: list[Tensor] = list(leader.parameters())
        self.following: list[Tensor] = list(self.encoder.parameters())

    @torch.no_grad()
    def follow(self) -> None:
        torch._foreach_lerp_(self.following, self.leading, 1 - self.momentum)


class NegativesQueue(nn.Module):
    """The last vectors that were pushed, newest first. vectors: (size, dimension); filled: how many of them are real.

    Examples:
        >>> queue = NegativesQueue(3, dimension=1)
        >>> queue.push(torch.tensor([[1.0], [2.0]]))
        >>> queue.vectors[:, 0].tolist(), queue.real.tolist()
        ([1.0, 2.0, 0.0], [True, True, False])
        >>> queue.push(torch.tensor([[3.0], [4.0]]))
        >>> queue.vectors[:, 0].tolist()
        [3.0, 4.0, 1.0]
    """

    vectors: Tensor
    filled: Tensor

    def __init__(self, size: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(size, dimension))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    @property
    def real(self) -> Tensor:
        """(size,) which entries hold a vector already."""
        return torch.arange(len(self.vectors), device=self.vectors.device) < self.filled

    def push(self, vectors: Tensor) -> None:
        size = len(self.vectors)
        self.vectors.copy_(torch.cat([vectors.to(self.vectors.dtype), self.vectors])[:size])
        self.filled.add_(len(vectors)).clamp_(max=size)


class MomentumQueue:
    """Both together. A method adds `modules` and `passes` to its own, hands `negatives` to its loss, keeps what `kept`
    says, and lets it `remember`."""

    def __init__(self, settings: QueueSettings, encoder: Encoder) -> None:
        self.follower = Follower(encoder, settings.queue_momentum)
        dimension = self.follower.encoder.dimension
        self.queue = NegativesQueue(settings.queue_size, dimension).to(encoder.device)

    def modules(self) -> dict[str, nn.Module]:
        return {"momentum": self.follower.encoder, "queue": self.queue}

    def passes(self, rows: Sequence[Ids]) -> dict[str, Pass]:
        return {PASS: Pass(rows, "momentum")}

    def negatives(self) -> tuple[Tensor, Tensor]:
        """Vectors (size, dimension), and which of them are real (size,)."""
        return self.queue.vectors, self.queue.real

    def kept(self, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {PASS: vectors[PASS]}

    def remember(self, kept: Mapping[str, Tensor]) -> None:
        self.queue.push(kept[PASS])
        self.follower.follow()
