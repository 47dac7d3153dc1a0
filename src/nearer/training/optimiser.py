"""AdamW with a linear schedule, as the papers use it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from nearer.training.settings import TrainingSettings


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
