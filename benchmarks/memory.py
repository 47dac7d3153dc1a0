"""The most memory that something took, beyond what was held before."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

_STATUS = Path("/proc/self/statm")
_EVERY_SECONDS = 0.01


@dataclass
class Peak:
    """Filled when the measured block ends. `used`: beyond what was held before; `total`: with it."""

    used: int | None = None
    total: int | None = None


@contextmanager
def device_peak(device: torch.device) -> Iterator[Peak]:
    """Memory of the GPU. Nothing is said of a CPU: what one competitor gave back, the next takes unseen."""
    peak = Peak()
    if device.type != "cuda":
        yield peak
        return
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    try:
        yield peak
    finally:
        peak.total = torch.cuda.max_memory_allocated(device)
        peak.used = max(0, peak.total - before)


@contextmanager
def process_peak() -> Iterator[Peak]:
    """Resident memory of this process, looked at every 10 ms; not known where there is no /proc."""
    peak = Peak()
    before = _resident()
    if before is None:
        yield peak
        return
    highest = before
    ended = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not ended.wait(_EVERY_SECONDS):
            highest = max(highest, _resident() or 0)

    watcher = threading.Thread(target=watch, name="nearer-memory", daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()
        peak.total = max(highest, _resident() or 0)
        peak.used = peak.total - before


def release(device: torch.device) -> None:
    """Give back what nothing refers to any more, before the next competitor is measured."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def _resident() -> int | None:
    try:
        return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None
