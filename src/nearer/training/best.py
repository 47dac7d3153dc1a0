"""The best weights so far, held where the model is and written when a checkpoint is: disks are slow."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from nearer.encoder import Encoder
from nearer.training.checkpoints import best_folder


class Best:
    """Keeps a copy of an encoder's weights, and writes it among the checkpoints under its step."""

    def __init__(self, encoder: Encoder, checkpoints: Path) -> None:
        self.encoder = encoder
        self.checkpoints = checkpoints
        self._step = 0
        self._weights: list[Tensor] | None = None

    @torch.no_grad()
    def keep(self, step: int) -> None:
        self._step = step
        weights = self._current()
        if self._weights is None:
            self._weights = [torch.empty_like(weight) for weight in weights]
        torch._foreach_copy_(self._weights, weights)

    def write(self) -> None:
        """To the folder, if there is anything new."""
        if self._weights is None:
            return
        current = [weight.clone() for weight in self._current()]
        self._put(self._weights)
        try:
            self.encoder.save(best_folder(self.checkpoints, self._step), overwrite=True)
        finally:
            self._put(current)
        self._weights = None

    @torch.no_grad()
    def _put(self, weights: list[Tensor]) -> None:
        torch._foreach_copy_(self._current(), weights)

    def _current(self) -> list[Tensor]:
        """Weights, and buffers such as the running means of a batch norm."""
        return [tensor.detach() for tensor in (*self.encoder.parameters(), *self.encoder.buffers())]
