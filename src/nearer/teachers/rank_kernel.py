"""Mean ranks from sorted lists on a GPU, in one pass over them.

With torch's own operations the runs of equal values are found by two scans over all entries, which take as long as the
sorting. Here each entry looks at its neighbours, and only where it has an equal one is the run's extent searched for.

Imported only where Triton is: on machines with a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _run_edge(row_ptr, value, size, STEPS: tl.constexpr, AFTER: tl.constexpr):
    """How many of a sorted row's values are below `value`; with AFTER, below or equal."""
    low = tl.zeros_like(value).to(tl.int32)
    high = low + size
    for _ in range(STEPS):
        middle = (low + high) // 2
        open_ones = low < high
        found = tl.load(row_ptr + middle, mask=open_ones, other=0.0)
        before = (found <= value) if AFTER else (found < value)
        low = tl.where(open_ones & before, middle + 1, low)
        high = tl.where(open_ones & (before == 0), middle, high)
    return low


@triton.jit
def _mean_ranks(ordered_ptr, order_ptr, out_ptr, size, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * size
    indices = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = indices < size
    value = tl.load(ordered_ptr + row + indices, mask=inside, other=0.0)
    left = tl.load(ordered_ptr + row + indices - 1, mask=inside & (indices > 0), other=float("nan"))
    right = tl.load(ordered_ptr + row + indices + 1, mask=inside & (indices + 1 < size), other=float("nan"))
    tied = inside & ((left == value) | (right == value))
    ranks = indices.to(tl.float32)
    if tl.max(tied.to(tl.int32), 0) > 0:
        begin = _run_edge(ordered_ptr + row, value, size, STEPS, False)
        end = _run_edge(ordered_ptr + row, value, size, STEPS, True)
        ranks = tl.where(tied, (begin + end - 1).to(tl.float32) / 2, ranks)
    target = tl.load(order_ptr + row + indices, mask=inside, other=0)
    tl.store(out_ptr + row + target, ranks, mask=inside)


def mean_ranks(ordered: Tensor, order: Tensor) -> Tensor:
    """From `lists.sort(dim=-1)`: the rank from 0 of each entry of the lists, equal ones with the mean of theirs."""
    rows, size = ordered.shape
    out = torch.empty(rows, size, dtype=torch.float32, device=ordered.device)
    steps = max(1, size.bit_length())
    _mean_ranks[rows, triton.cdiv(size, BLOCK)](ordered.contiguous(), order.contiguous(), out, size, BLOCK, steps)
    return out
