"""Clipping, AdamW and the renewal of lower-precision copies in one pass over all weights.

The optimiser moves 28 bytes for each weight, whatever the batch; at small batches that is a sixth of a step. Three
kernels of torch (copy the gradients to float32, clip, copy the weights back) would each move as much again.

Weights, moments and gradients are found by their addresses, so one launch serves tensors of all shapes. Only for steps
that are captured: there, addresses stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.optim import AdamW

CHUNK = 1024


@triton.jit
def _chunk(chunk_ptr, sizes_ptr, CHUNK: tl.constexpr):
    """Which tensor this program works on, where in it, and which entries from there on belong to it."""
    tensor = tl.load(chunk_ptr + 2 * tl.program_id(0))
    start = tl.load(chunk_ptr + 2 * tl.program_id(0) + 1) * CHUNK
    left = (tl.load(sizes_ptr + tensor) - start).to(tl.int32)
    return tensor, start, tl.arange(0, CHUNK) < left


@triton.jit
def _at(addresses_ptr, row, tensor, start, count, TYPE: tl.constexpr, ALIGNED: tl.constexpr, CHUNK: tl.constexpr):
    """Pointers to the chunk's entries of the tensor in this row of the table."""
    first = tl.load(addresses_ptr + row * count + tensor).to(tl.pointer_type(TYPE)) + start
    if ALIGNED:
        first = tl.multiple_of(first, 16)
    return first + tl.arange(0, CHUNK)


@triton.jit
def _adam_squares(
    addresses_ptr, sizes_ptr, chunk_ptr, sums_ptr, count,
    GRADIENT: tl.constexpr, ALIGNED: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    tensor, start, inside = _chunk(chunk_ptr, sizes_ptr, CHUNK)
    g_ptr = _at(addresses_ptr, 0, tensor, start, count, GRADIENT, ALIGNED, CHUNK)
    g = tl.load(g_ptr, mask=inside, other=0.0).to(tl.float32)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(g * g, 0))


@triton.jit
def _adam_update(
    addresses_ptr, sizes_ptr, chunk_ptr, norm_ptr, rate_ptr, corrections_ptr, count, clip, beta1, beta2, eps, decay,
    GRADIENT: tl.constexpr, COPIED: tl.constexpr, ALIGNED: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    tensor, start, inside = _chunk(chunk_ptr, sizes_ptr, CHUNK)
    g_ptr = _at(addresses_ptr, 0, tensor, start, count, GRADIENT, ALIGNED, CHUNK)
    weight_ptr = _at(addresses_ptr, 1, tensor, start, count, tl.float32, ALIGNED, CHUNK)
    mean_ptr = _at(addresses_ptr, 2, tensor, start, count, tl.float32, ALIGNED, CHUNK)
    square_ptr = _at(addresses_ptr, 3, tensor, start, count, tl.float32, ALIGNED, CHUNK)
    g = tl.load(g_ptr, mask=inside, other=0.0).to(tl.float32)
    mean = tl.load(mean_ptr, mask=inside, other=0.0)
    square = tl.load(square_ptr, mask=inside, other=0.0)
    weight = tl.load(weight_ptr, mask=inside, other=0.0)
    rate = tl.load(rate_ptr)
    g = g * tl.minimum(clip / (tl.load(norm_ptr) + 1e-6), 1.0)
    mean = mean + (g - mean) * (1 - beta1)
    square = beta2 * square + (1 - beta2) * g * g
    weight = weight * (1 - rate * decay)
    size = tl.sqrt(square) * (1 / tl.sqrt(tl.load(corrections_ptr + 1))) + eps
    weight = weight - rate / tl.load(corrections_ptr) * (mean / size)
    tl.store(mean_ptr, mean, mask=inside)
    tl.store(square_ptr, square, mask=inside)
    tl.store(weight_ptr, weight, mask=inside)
    if COPIED:
        copy_ptr = _at(addresses_ptr, 4, tensor, start, count, tl.bfloat16, ALIGNED, CHUNK)
        tl.store(copy_ptr, weight.to(tl.bfloat16), mask=inside)


@dataclass(frozen=True)
class Trained:
    """A weight with what is known of where its gradient lies, and its lower-precision copy if it has one."""

    weight: Tensor
    gradient: Tensor
    copy: Tensor | None


class _Group:
    """Weights whose gradients have one type, with copies or without."""

    def __init__(self, members: Sequence[Trained], optimiser: AdamW) -> None:
        self.count = len(members)
        columns = [
            [member.gradient for member in members],
            [member.weight for member in members],
            [optimiser.state[member.weight]["exp_avg"] for member in members],
            [optimiser.state[member.weight]["exp_avg_sq"] for member in members],
            [member.copy for member in members if member.copy is not None],
        ]
        tensors = [tensor for column in columns for tensor in column]
        assert all(tensor.is_contiguous() for tensor in tensors)
        addresses = [tensor.data_ptr() for tensor in tensors]
        sizes = [member.weight.numel() for member in members]
        chunks = [(n, chunk) for n, size in enumerate(sizes) for chunk in range(triton.cdiv(size, CHUNK))]
        self.table = tuple(torch.tensor(numbers, dtype=torch.int64) for numbers in (addresses, sizes, chunks))
        self.grid = (len(chunks),)
        self.kind = {
            "GRADIENT": tl.bfloat16 if members[0].gradient.dtype == torch.bfloat16 else tl.float32,
            "ALIGNED": all(address % 16 == 0 for address in addresses),
            "CHUNK": CHUNK,
        }
        self.copied = bool(columns[-1])


class Update:
    """One optimiser step for the given weights, launched while a graph is captured."""

    def __init__(self, trained: Sequence[Trained], optimiser: AdamW, clip: float) -> None:
        self.optimiser = optimiser
        self.clip = clip
        kinds = dict.fromkeys((member.gradient.dtype, member.copy is not None) for member in trained)
        self.groups = [
            _Group([each for each in trained if (each.gradient.dtype, each.copy is not None) == kind], optimiser)
            for kind in kinds
        ]
        self.steps = [optimiser.state[member.weight]["step"] for member in trained]

    def tables(self, device: torch.device) -> list[tuple[Tensor, ...]]:
        """Room on the device for each group's table: what is launched reads them when it runs."""
        return [tuple(part.to(device) for part in group.table) for group in self.groups]

    def fill(self, tables: Sequence[tuple[Tensor, ...]]) -> None:
        for group, table in zip(self.groups, tables, strict=True):
            for part, there in zip(group.table, table, strict=True):
                there.copy_(part)

    @torch.no_grad()
    def launch(self, tables: Sequence[tuple[Tensor, ...]], norm: Tensor) -> None:
        """norm: where the gradient's norm goes."""
        settings = self.optimiser.param_groups[0]
        sums = [torch.empty(group.grid, device=norm.device) for group in self.groups]
        for group, table, squares in zip(self.groups, tables, sums, strict=True):
            _adam_squares[group.grid](*table, squares, group.count, **group.kind)
        norm.copy_(torch.cat(sums).sum(dtype=torch.float64).sqrt())
        torch._foreach_add_(self.steps, 1)
        beta1, beta2 = settings["betas"]
        step = self.steps[0].double()
        corrections = torch.stack([1 - beta1**step, 1 - beta2**step]).float()
        for group, table in zip(self.groups, tables, strict=True):
            _adam_update[group.grid](
                *table, norm, settings["lr"], corrections, group.count, self.clip, beta1, beta2, settings["eps"],
                settings["weight_decay"], COPIED=group.copied, **group.kind,
            )  # fmt: skip
