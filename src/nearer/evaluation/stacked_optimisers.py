"""Adam and RMSprop over stacked problems, of which some leave before the others; torch's defaults throughout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam


class Optimiser(Protocol):
    """The state for weights whose first dimension counts the problems; these take each step together."""

    def step(self, weights: Tensor, gradient: Tensor) -> None: ...

    def keep(self, kept: Tensor) -> None:
        """Forget all problems but these."""


class Adam:
    """In one fused pass."""

    def __init__(self, weights: Tensor) -> None:
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = torch.zeros((), device=weights.device)

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        adam(
            [weights],
            [gradient],
            [self.mean],
            [self.square],
            [],
            [self.steps],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=1e-3,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def keep(self, kept: Tensor) -> None:
        self.mean, self.square = self.mean[kept], self.square[kept]


class RMSprop:
    def __init__(self, weights: Tensor) -> None:
        self.square = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        self.square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
        weights.addcdiv_(gradient, self.square.sqrt().add_(1e-8), value=-0.01)

    def keep(self, kept: Tensor) -> None:
        self.square = self.square[kept]


OPTIMISERS: dict[str, Callable[[Tensor], Optimiser]] = {"adam": Adam, "rmsprop": RMSprop}
