"""Tables of embeddings in a step: float32 as they are trained, rows of them in the step's precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

# A table with so few entries is read often in each: its gradient is a matrix product
SMALL_TABLE = 1024


class Table(nn.Module):
    """A table of embeddings that stays float32 and gives rows in the step's precision."""

    def __init__(self, table: nn.Embedding, dtype: torch.dtype, kernels: bool) -> None:
        super().__init__()
        self.weight = table.weight
        self.padding = -1 if table.padding_idx is None else table.padding_idx
        self.dtype = dtype
        self.kernels = kernels

    def forward(self, ids: Tensor) -> Tensor:
        if self.kernels:
            rows: Tensor = _Read.apply(self.weight, ids, self.padding, self.dtype)  # type: ignore[no-untyped-call]
            return rows
        padding = None if self.padding < 0 else self.padding
        return embedding(ids, self.weight, padding_idx=padding).to(self.dtype)


class _Read(torch.autograd.Function):
    """Rows of a table whose gradient is summed in an order that never changes."""

    @staticmethod
    def forward(context: Any, weight: Tensor, ids: Tensor, padding: int, dtype: torch.dtype) -> Tensor:
        context.save_for_backward(ids)
        context.entries, context.padding = len(weight), padding
        return embedding(ids, weight).to(dtype)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        from nearer.encoder.kernels import table_gradient

        (ids,) = context.saved_tensors
        gradient = gradients[0].flatten(0, -2)
        flat = ids.expand(gradients[0].shape[:-1]).flatten()
        if context.entries > SMALL_TABLE:
            return table_gradient(gradient, flat, context.entries, context.padding), None, None, None
        entries = torch.arange(context.entries, device=flat.device)
        read = (flat[None, :] == entries[:, None]) & (entries != context.padding)[:, None]
        return (read.to(gradient.dtype) @ gradient).float(), None, None, None


def replace_tables(model: nn.Module, dtype: torch.dtype, kernels: bool) -> None:
    made: dict[int, Table] = {}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Embedding):
                made.setdefault(id(child), Table(child, dtype, kernels))
                setattr(module, name, made[id(child)])
