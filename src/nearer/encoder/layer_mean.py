"""A backbone whose token states are a weighted mean over the layers of another: WeightedLayerPooling."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from nearer.errors import ModelError


class WeightedLayers(nn.Module):
    """For weights that no pooling of ours has a name for (`first_last_mean` and its like are poolings).

    weights: of the embedding layer and of each block, in this order; they are divided by their sum.
    """

    layer_weights: torch.Tensor

    def __init__(self, backbone: nn.Module, weights: Sequence[float]) -> None:
        super().__init__()
        self.backbone = backbone
        self.register_buffer("layer_weights", torch.tensor(weights, dtype=torch.float32))
        if not torch.isfinite(self.layer_weights / self.layer_weights.sum()).all():
            raise ModelError(f"the layers' weights {list(weights)} have no finite sum other than 0.")

    @property
    def config(self) -> Any:
        return self.backbone.config

    def get_input_embeddings(self) -> Any:
        return self.backbone.get_input_embeddings()  # type: ignore[operator]

    def forward(self, *, output_hidden_states: bool = False, **inputs: Any) -> SimpleNamespace:
        """output_hidden_states: is taken as said; all layers are needed in any case."""
        layers = self.backbone(output_hidden_states=True, **inputs).hidden_states
        if len(layers) != len(self.layer_weights):
            raise ModelError(f"the model has {len(layers)} layers of states, weights are given for {self.given}.")
        shares = self.layer_weights / self.layer_weights.sum()
        mean = sum(share * layer for share, layer in zip(shares, layers, strict=True))
        return SimpleNamespace(last_hidden_state=mean, hidden_states=layers if output_hidden_states else None)

    @property
    def given(self) -> int:
        return len(self.layer_weights)
