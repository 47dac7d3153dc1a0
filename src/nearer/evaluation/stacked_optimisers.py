"""Adam and RMSprop over stacked problems, of which some leave before the others; torch's defaults throughout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam


class Optimiser(Protocol):
    """The state for parameters whose first dimension counts the problems; all of these take each step together."""

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None: ...

    def keep(self, kept: Tensor) -> None:
        """Forget all problems but these."""


class Adam:
    """One fused pass: with hundreds of problems the updates cost as much as the products."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]
        self.steps = [torch.zeros((), device=parameter.device) for parameter in parameters]

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        adam(
            list(parameters),
            list(gradients),
            self.means,
            self.squares,
            [],
            self.steps,
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
        self.means = [mean[kept] for mean in self.means]
        self.squares = [square[kept] for square in self.squares]


class RMSprop:
    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        for parameter, gradient, square in zip(parameters, gradients, self.squares, strict=True):
            square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
            parameter.addcdiv_(gradient, square.sqrt().add_(1e-8), value=-0.01)

    def keep(self, kept: Tensor) -> None:
        self.squares = [square[kept] for square in self.squares]


OPTIMISERS: dict[str, Callable[[Sequence[Tensor]], Optimiser]] = {"adam": Adam, "rmsprop": RMSprop}
