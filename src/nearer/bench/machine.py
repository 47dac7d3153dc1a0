"""On what it was measured, and what that machine can do at best."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from nearer.units import as_bytes
from nearer.versions import library_versions

PEER = "sentence-transformers"
# large enough to be limited by arithmetic alone: matrices of bf16 on a GPU, of float32 on a CPU
GPU_SIZE, CPU_SIZE = 8192, 1024
COPIED_BYTES = 2**32


def machine_facts(device: torch.device) -> dict[str, Any]:
    """The machine in words."""
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "cpu": f"{_cpu_model()}, {_usable_cores()} cores usable, {torch.get_num_threads()} torch threads",
        "memory": as_bytes(_memory()) or "unknown",
        "device": str(device),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        capability = f"compute capability {properties.major}.{properties.minor}"
        driver = f"{_driver()}, CUDA {torch.version.cuda}"
        facts["gpu"] = f"{properties.name}, {as_bytes(properties.total_memory)}, {capability}, {driver}"
    return facts


def versions() -> dict[str, str]:
    found = library_versions()
    for package in (PEER, "triton", "accelerate", "datasets"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Ceilings:
    """What the device reaches at best: floating-point operations a second, bytes copied a second."""

    matrix_rate: float
    copy_rate: float | None
    described: dict[str, str]


def measure_ceilings(device: torch.device) -> Ceilings:
    rate = matrix_rate(device)
    kind = f"bf16, {GPU_SIZE}³" if device.type == "cuda" else f"float32, {CPU_SIZE}³"
    described = {"matrix product": f"{rate / 1e12:,.3g} TFLOP/s ({kind}, random)"}
    if device.type != "cuda":
        return Ceilings(rate, None, described)
    copying = copy_rate(device)
    return Ceilings(rate, copying, {**described, "copy": f"{copying / 1e12:.2f} TB/s (read and written)"})


def matrix_rate(device: torch.device) -> float:
    """Floating-point operations a second of a large matrix product on random data (zeros are faster)."""
    kind, size = (torch.bfloat16, GPU_SIZE) if device.type == "cuda" else (torch.float32, CPU_SIZE)
    generator = torch.Generator(device=device).manual_seed(0)
    left, right = (torch.randn(size, size, device=device, generator=generator).to(kind) for _ in range(2))
    out = torch.empty_like(left)
    return 2 * size**3 / _seconds(lambda: torch.mm(left, right, out=out), device)


def copy_rate(device: torch.device) -> float:
    """Bytes a second, read and written, of a copy within the device's memory."""
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * COPIED_BYTES / _seconds(lambda: target.copy_(source), device)


def _seconds(work: Callable[[], object], device: torch.device, repetitions: int = 10) -> float:
    """Median over repetitions, by the GPU's own clock where there is one."""
    for _ in range(3):
        work()
    clock = _on_gpu if device.type == "cuda" else _on_cpu
    return statistics.median(clock(work) for _ in range(repetitions))


def _on_gpu(work: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def _on_cpu(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "driver unknown"
    return f"driver {shown.split()[0]}" if shown.split() else "driver unknown"
