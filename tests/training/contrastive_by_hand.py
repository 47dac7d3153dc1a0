"""Relatives of SimCSE as plain loops from the papers: one sentence at a time, nothing padded, float32.

Each function gives the loss of one batch. Rows are those that the method drew; what is made of them is not its code.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from nearer.training.trainer import Trainer


def rows_of(trainer: Trainer, number: int, name: str) -> list[Any]:
    return list(trainer.method.inputs(trainer.feed.batch(number)).passes[name].rows)


def cls_vector(encoder: Any, ids: Any) -> Tensor:
    """[CLS] through the head of training."""
    state = encoder.backbone(input_ids=torch.tensor(ids.tolist())[None]).last_hidden_state[0, 0]
    return torch.tanh(encoder.head.linear.weight @ state + encoder.head.linear.bias)


def cosine(one: Tensor, other: Tensor) -> Tensor:
    return torch.dot(one, other) / one.norm() / other.norm()


class MomentumQueueByHand:
    """ESimCSE's queue as a list, and its encoder as a copy whose weights are moved one by one."""

    def __init__(self, model: nn.ModuleDict, size: int, momentum: float) -> None:
        self.encoder = copy.deepcopy(model["encoder"])
        self.size, self.momentum = size, momentum
        self.vectors: list[Tensor] = []

    @torch.no_grad()
    def push(self, model: Any, rows: list[Any]) -> None:
        self.vectors = [*(cls_vector(self.encoder, ids) for ids in rows), *self.vectors][: self.size]
        for own, other in zip(self.encoder.parameters(), model["encoder"].parameters(), strict=True):
            own.copy_(self.momentum * own + (1 - self.momentum) * other)


def contrast(anchors: list[Tensor], positives: list[Tensor], more: list[Tensor], temperature: float) -> Tensor:
    losses = []
    for i, anchor in enumerate(anchors):
        near = torch.stack([cosine(anchor, other) for other in (*positives, *more)]) / temperature
        losses.append(-(near[i].exp() / near.exp().sum()).log())
    return torch.stack(losses).mean()


def esimcse(trainer: Trainer, model: Any, number: int, queue: MomentumQueueByHand) -> Tensor:
    anchors, positives = rows_of(trainer, number, "anchors"), rows_of(trainer, number, "positives")
    first, second = ([cls_vector(model["encoder"], ids) for ids in rows] for rows in (anchors, positives))
    loss = contrast(first, second, queue.vectors, 0.05)
    queue.push(model, anchors)
    return loss
