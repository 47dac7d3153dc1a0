"""The layers that may follow pooling: the head of SimCSE; Dense, LayerNorm and Normalize modules of other models."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nearer.errors import ModelError

# The activations known by name; a model that names any other is refused instead of importing what it names.
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "Identity": nn.Identity,
    "Tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "SiLU": nn.SiLU,
    "Sigmoid": nn.Sigmoid,
}


class Dense(nn.Module):
    """`activation(linear(x))`, with the weights' names of sentence-transformers' Dense."""

    def __init__(self, size_in: int, size_out: int, *, bias: bool = True, activation: str = "Tanh") -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ModelError(f"activation {activation!r} of a Dense layer is not one of {', '.join(ACTIVATIONS)}.")
        self.linear = nn.Linear(size_in, size_out, bias=bias)
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]()

    @property
    def size_in(self) -> int:
        return self.linear.in_features

    @property
    def size_out(self) -> int:
        return self.linear.out_features

    def forward(self, vectors: Tensor) -> Tensor:
        # means over tokens come in float32 whatever the weights are
        output: Tensor = self.activation(self.linear(vectors.to(self.linear.weight.dtype)))
        return output


class Norm(nn.Module):
    """Layer normalisation, with the weights' names of sentence-transformers' LayerNorm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)

    @property
    def size_out(self) -> int:
        return int(self.norm.normalized_shape[0])

    size_in = size_out

    def forward(self, vectors: Tensor) -> Tensor:
        output: Tensor = self.norm(vectors.to(self.norm.weight.dtype))
        return output


class UnitLength(nn.Module):
    """Vectors of length 1, where another layer or a truncation follows; at the very end it is a setting."""

    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1)


Projection = Dense | Norm | UnitLength


def new_head(size: int, generator: torch.Generator | None = None) -> Dense:
    """SimCSE's head: Linear(h, h) and tanh, drawn from N(0, 0.02) with zero bias, whatever the backbone's pooler."""
    head = Dense(size, size)
    nn.init.normal_(head.linear.weight, std=0.02, generator=generator)
    nn.init.zeros_(head.linear.bias)
    return head
