"""One optimiser step, launched operation by operation: what every machine can do, and what the fast step must equal.

The optimiser is AdamW with a linear schedule, as the papers use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from nearer.distributed import sum_gradients
from nearer.methods.contract import Losses
from nearer.training.compute import Computation
from nearer.training.prepared import Prepared
from nearer.training.settings import TrainingSettings

SeedOf = Callable[[int, int], int]  # batch number, pass number


@dataclass(frozen=True)
class Readings:
    """What a step measured, still on the device: reading a value there makes the CPU wait."""

    names: tuple[str, ...]
    values: Tensor

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Tensor], norm: Tensor) -> Readings:
        """values: of each batch, under `names`; norm: of the gradient they led to."""
        mean = values[0] if len(values) == 1 else torch.stack(list(values)).mean(dim=0)
        return cls((*names, "gradient_norm"), torch.cat([mean, norm.reshape(1)]))


class Step(Protocol):
    """Batches in, weights changed. A step may have several batches (accumulation), each with its own negatives.

    start_up_seconds: spent so far on compiling and capturing; remarks: what the user should know of it.
    """

    start_up_seconds: float
    remarks: list[str]

    def __call__(self, number: int, batches: Sequence[Prepared], rate: float) -> Readings:
        """number: of the first batch, from which its random numbers follow."""

    def on_stream(self) -> AbstractContextManager[None]:
        """Where gradients are computed, for whoever computes some outside a step."""


class PlainStep:
    """A step that any machine can take."""

    start_up_seconds = 0.0

    def __init__(self, computation: Computation, optimiser: AdamW, clip: float, device: torch.device, seed_of: SeedOf):
        self.computation = computation
        self.optimiser = optimiser
        self.clip = clip
        self.device = device
        self.seed_of = seed_of
        self.remarks: list[str] = []
        self.parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]

    def __call__(self, number: int, batches: Sequence[Prepared], rate: float) -> Readings:
        working = self.computation.working
        losses = []
        for turn, batch in enumerate(batches):
            tensors = {name: tensor.to(self.device, non_blocking=True) for name, tensor in batch.tensors.items()}
            losses.append(self._backward(number + turn, batch, tensors, 1 / len(batches)))
            self.computation.remember(losses[-1])
        working.collect()
        set_rate(self.optimiser, rate)
        sum_gradients(self.parameters)
        norm = nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        working.renew()
        values = [stacked(each) for each in losses]
        return Readings.of(["loss", *losses[0].parts], values, norm)

    def on_stream(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _backward(self, number: int, batch: Prepared, tensors: dict[str, Tensor], share: float) -> Losses:
        def seed(part: int) -> None:
            seed_device(self.seed_of(number, part), self.device)

        return self.computation.backward(batch.plan, tensors, share, seed)


def stacked(losses: Losses) -> Tensor:
    return torch.stack([losses.total, *losses.parts.values()]).float()


def seed_device(seed: int, device: torch.device) -> None:
    """Random numbers of the device from here on, and of no other: seeding them all takes time."""
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    elif device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def make_optimiser(parameters: Sequence[nn.Parameter], settings: TrainingSettings, device: torch.device) -> AdamW:
    on_gpu = device.type == "cuda"
    return AdamW(
        parameters,
        # on a GPU the rate is a tensor, so that a captured step can be told another one
        lr=torch.tensor(settings.learning_rate, device=device) if on_gpu else settings.learning_rate,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=settings.weight_decay,
        fused=True,
        capturable=on_gpu,
    )


def make_moments(optimiser: AdamW) -> None:
    """The moments that the optimiser would make at its first step: a captured step must find them there."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            if not optimiser.state[parameter]:
                optimiser.state[parameter] = {
                    "step": torch.zeros((), device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }


def set_rate(optimiser: AdamW, rate: float) -> None:
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(step: int, steps: int, settings: TrainingSettings) -> float:
    """The rate of step `step` (from 0): rising over the warm-up, then falling to 0 at the end."""
    warmup = int(settings.warmup * steps)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    return settings.learning_rate * (steps - step) / max(1, steps - warmup)
