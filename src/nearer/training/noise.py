"""Dropout that follows from seeds, so that a pass can be repeated and a step captured."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Noise:
    """Dropout as a function of seeds: one for each dropout of the model, drawn anew for each pass."""

    def __init__(self, model: nn.Module) -> None:
        places = [
            (module, name)
            for module in model.modules()
            for name, child in module.named_children()
            if isinstance(child, nn.Dropout) and child.p > 0
        ]
        device = next(model.parameters()).device
        self.seeds = torch.zeros(len(places), dtype=torch.int64, device=device)
        for number, (module, name) in enumerate(places):
            rate = getattr(module, name).p
            setattr(module, name, SeededDropout(rate, self.seeds[number : number + 1]))

    def draw(self) -> None:
        self.seeds.random_()


class SeededDropout(nn.Module):
    """Dropout that keeps the same entries for the same seed. Attention reads its rate and seed, too."""

    seed: Tensor

    def __init__(self, rate: float, seed: Tensor) -> None:
        super().__init__()
        from nearer.encoder.kernels import drop

        self.p = rate
        self.rescale = drop(rate)[1]
        self.register_buffer("seed", seed, persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        if not self.training:
            return states
        kept: Tensor = torch.ops.nearer.keep(states, self.seed, self.p)
        return torch.where(kept, states * self.rescale, 0.0)
