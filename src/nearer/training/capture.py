"""The encoder's forward and backward pass replayed as CUDA graphs.

At 32 tokens a step is bound by the launching of kernels, not by arithmetic. A graph launches them all at once, with
the same mathematics and fresh dropout masks at every replay.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer.encoder import Encoder


class CapturedEncoder:
    """Stands in for the encoder in a method's loss.

    Each pass of a step has a graph of its own for its shape: a graph keeps one pass' activations, and a second
    replay before the backward pass would overwrite them.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._graphs: dict[tuple[int, bool, torch.Size], Any] = {}
        self._passes = 0

    def begin_step(self) -> None:
        self._passes = 0

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self._replayed(ids, mask, pooled=True)

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self._replayed(ids, mask, pooled=False)

    def _replayed(self, ids: Tensor, mask: Tensor, *, pooled: bool) -> Tensor:
        key = (self._passes, pooled, ids.shape)
        self._passes += 1
        if key not in self._graphs:
            passing = _Pass(self._encoder, pooled).train()
            sample = (torch.ones_like(ids), torch.ones_like(mask))
            self._graphs[key] = torch.cuda.make_graphed_callables(passing, sample, allow_unused_input=True)
        output: Tensor = self._graphs[key](ids, mask)
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)


class _Pass(nn.Module):
    """A module of its own, because capturing replaces a module's forward."""

    def __init__(self, encoder: Encoder, pooled: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooled = pooled

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        output: Tensor = self.encoder(ids, mask) if self.pooled else self.encoder.states(ids, mask)
        return output
