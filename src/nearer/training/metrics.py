"""The losses of many steps, read without making the GPU wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nearer.training.step import Readings


@dataclass(frozen=True)
class Means:
    """Mean values over the steps up to `step`; the gradient's norm is that of the last of them."""

    step: int
    values: dict[str, float]
    finite: bool


class Metrics:
    """Collects readings; a look at them starts a copy to the host, which the next look finds done."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._recent: list[Readings] = []
        self._under_way: list[tuple[int, Sequence[str], Tensor, Any]] = []

    def add(self, readings: Readings) -> None:
        self._recent.append(readings)

    def look(self, step: int, *, wait: bool) -> list[Means]:
        """What is known by now of the steps up to `step`: all of it with `wait`, else maybe only the look before."""
        done = self._arrived()
        self._send(step)
        if wait or not self._on_gpu:
            done += self._arrived()
        return done

    def _send(self, step: int) -> None:
        if not self._recent:
            return
        values = torch.stack([readings.values for readings in self._recent])
        names, event = self._recent[0].names, None
        if self._on_gpu:
            host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            host.copy_(values, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            values = host
        self._under_way.append((step, names, values, event))
        self._recent = []

    def _arrived(self) -> list[Means]:
        means = []
        for step, names, values, event in self._under_way:
            if event is not None:
                event.synchronize()
            mean = dict(zip(names, values.mean(dim=0).tolist(), strict=True))
            mean["gradient_norm"] = float(values[-1, -1])
            means.append(Means(step, mean, bool(values.isfinite().all())))
        self._under_way = []
        return means
