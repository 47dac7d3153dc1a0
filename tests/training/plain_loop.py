"""Steps as anybody would write them: a loss, AdamW with the papers' schedule, nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nearer.training.step import learning_rate
from nearer.training.trainer import Trainer


def same_losses(trainer: Trainer, loss: Callable[[Any, int], torch.Tensor], steps: int = 3) -> None:
    """The trainer's losses are those of the same steps by hand, from a copy of its model.

    loss: of the model and the number of the step. The first loss tells whether the loss is right, the second whether
    the gradient and the optimiser's step are. In later ones rounding has grown, differently on each processor: AdamW
    takes a step of full size also along a gradient that is hardly more than rounding.
    """
    model = copy.deepcopy(trainer.model).eval()
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(parameters, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    wanted = []
    for step in range(steps):
        value = loss(model, step)
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, trainer.steps, trainer.settings)
        optimiser.step()
        optimiser.zero_grad()
        wanted.append(value.item())
    try:
        found = [trainer.advance().values[0].item() for _ in range(steps)]
    finally:
        trainer.close()
    assert found[:2] == pytest.approx(wanted[:2], rel=1e-5)
    assert found == pytest.approx(wanted, rel=1e-4)
