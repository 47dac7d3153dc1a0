"""AdamW with a linear schedule, as the papers use it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import AdamW

from nearer.training.settings import TrainingSettings


def make_optimiser(parameters: Iterable[nn.Parameter], settings: TrainingSettings, device: torch.device) -> AdamW:
    return AdamW(
        parameters,
        lr=settings.learning_rate,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=settings.weight_decay,
        fused=device.type == "cuda",
    )


def learning_rate(step: int, steps: int, settings: TrainingSettings) -> float:
    """The rate of step `step` (from 0): rising over the warm-up, then falling to 0 at the end."""
    warmup = int(settings.warmup * steps)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    return settings.learning_rate * (steps - step) / max(1, steps - warmup)
