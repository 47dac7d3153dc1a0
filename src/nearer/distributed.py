"""Several processes on one batch: who computes which rows, and rows gathered so that gradients add up.

Every process sees the loss of the whole batch but holds the graph of its own rows only. The gradients of all
processes, summed, are then exactly those of one process on the whole batch; `training` sums them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Value = TypeVar("Value")


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def start(device: torch.device) -> None:
    """Join the group that `torchrun` set up, if it did."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")


def stop() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def local_device() -> torch.device:
    """The GPU of this process, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def shares(rows: int) -> list[int]:
    """How many of a batch's rows each process computes: as even as can be, in order of rank."""
    size = world_size()
    return [rows // size + (rank < rows % size) for rank in range(size)]


def gather_rows(rows: Tensor, counts: Sequence[int]) -> Tensor:
    """The rows of all processes in order of rank; those of this one keep their gradient."""
    if world_size() == 1:
        return rows
    longest = max(counts)
    padded = rows.new_zeros(longest, *rows.shape[1:])
    padded[: len(rows)] = rows.detach()
    everyone = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(everyone, padded)
    parts = [part[:count] for part, count in zip(everyone, counts, strict=True)]
    parts[rank()] = rows
    return torch.cat(parts)


def own_rows(rows: Tensor, counts: Sequence[int]) -> Tensor:
    """This process' part of rows that all processes have computed alike; its gradient is that of all parts."""
    if world_size() == 1:
        return rows
    own: Tensor = _OwnRows.apply(rows, counts)  # type: ignore[no-untyped-call]
    return own


class _OwnRows(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor, counts: Sequence[int]) -> Tensor:
        context.counts = counts
        start = sum(counts[: rank()])
        return rows[start : start + counts[rank()]].clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gather_rows(gradients[0], context.counts), None


def gather_unequal(rows: Tensor) -> Tensor:
    """As `gather_rows`, where no process knows how many rows the others have."""
    if world_size() == 1:
        return rows
    own = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(counts, own)
    sizes = [int(count) for count in counts]
    # not every backend gathers truth values
    gathered = gather_rows(rows.long() if rows.dtype == torch.bool else rows, sizes)
    return gathered.to(rows.dtype)


def total(value: Tensor) -> Tensor:
    """The sum over all processes, without gradient."""
    value = value.detach().clone()
    if world_size() > 1:
        dist.all_reduce(value)
    return value


def sum_gradients(parameters: Sequence[torch.nn.Parameter]) -> None:
    """Add up the gradients of all processes, in one message."""
    if world_size() == 1:
        return
    gradients = []
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradients.append(parameter.grad)
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat)
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, part in zip(gradients, torch.split(flat, sizes), strict=True):
        gradient.copy_(part.view_as(gradient))


def agree(flag: bool, device: torch.device) -> bool:
    """Whether any process raised its flag: all of them then do the same."""
    if world_size() == 1:
        return flag
    value = torch.tensor(int(flag), device=device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return bool(value.item())


def from_first(value: Value) -> Value:
    """The first process' value, for all of them."""
    if world_size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values)
    return values[0]


def wait_for_all() -> None:
    if world_size() > 1:
        dist.barrier()
