"""The projector of DiffCSE and InfoCSE, which is for training only."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Projector(nn.Module):
    """Linear, batch norm, ReLU, linear, batch norm. Statistics are those of the batch: at inference it is not used."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(size, 2 * width, bias=False)
        self.first_norm = nn.BatchNorm1d(2 * width, track_running_stats=False)
        self.second = nn.Linear(2 * width, width, bias=False)
        self.second_norm = nn.BatchNorm1d(width, affine=False, track_running_stats=False)

    def forward(self, vectors: Tensor) -> Tensor:
        hidden = torch.relu(self.first_norm(self.first(vectors.to(self.first.weight.dtype))))
        found: Tensor = self.second_norm(self.second(hidden))
        return found
