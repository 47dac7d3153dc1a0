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
GPU_SIZE, CPU_SIZES = 8192, (1024, 2048, 4096)
CPU_SECONDS = 0.3  # for each size and number of threads
SHORT = 0.01  # seconds: a product that takes less may be limited by its start, so a larger one is tried too
BUSY = 1.5  # median over best: above it, something else ran
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
    if device.type != "cuda":
        product = cpu_product()
        return Ceilings(product.rate, None, {"matrix product": product.described})
    rate, copying = gpu_matrix_rate(device), copy_rate(device)
    described = {
        "matrix product": f"{rate / 1e12:,.3g} TFLOP/s (bf16, {GPU_SIZE}³, random)",
        "copy": f"{copying / 1e12:.2f} TB/s (read and written)",
    }
    return Ceilings(rate, copying, described)


def gpu_matrix_rate(device: torch.device) -> float:
    """Floating-point operations a second of a large matrix product on random data (zeros are faster)."""
    generator = torch.Generator(device=device).manual_seed(0)
    shape = GPU_SIZE, GPU_SIZE
    left, right = (torch.randn(*shape, device=device, generator=generator).bfloat16() for _ in range(2))
    out = torch.empty_like(left)
    return 2 * GPU_SIZE**3 / gpu_seconds(lambda: torch.mm(left, right, out=out))


@dataclass(frozen=True)
class CpuProduct:
    """Matrix products of one size by so many threads: seconds of each."""

    size: int
    threads: int
    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Floating-point operations a second, of the fastest.

        A limit is what the processor reaches when nothing disturbs it. On a busy machine a median measures the
        disturbance: threads wait for the one that has no core, and a product takes several times as long.
        """
        return 2 * self.size**3 / min(self.seconds)

    @property
    def described(self) -> str:
        by = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        slowed = statistics.median(self.seconds) / min(self.seconds)
        busy = f"; other programs ran: the median took {slowed:.1f} × as long" if slowed > BUSY else ""
        kind = f"float32, {self.size}³, random, {by}, the best of {len(self.seconds)}{busy}"
        return f"{self.rate / 1e12:,.3g} TFLOP/s ({kind})"


def cpu_product() -> CpuProduct:
    """The fastest products of this machine. One thread is tried too: it is the fastest where other cores are taken."""
    usual = torch.get_num_threads()
    found: list[CpuProduct] = []
    try:
        for threads in sorted({usual, 1}):
            torch.set_num_threads(threads)
            for size in CPU_SIZES:
                found.append(CpuProduct(size, threads, _cpu_seconds(_product_of(size), CPU_SECONDS)))
                if min(found[-1].seconds) > SHORT:
                    break
    finally:
        torch.set_num_threads(usual)
    return max(found, key=lambda product: product.rate)


def _product_of(size: int) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(size, size, generator=generator) for _ in range(2))
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)


def copy_rate(device: torch.device) -> float:
    """Bytes a second, read and written, of a copy within the device's memory."""
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * COPIED_BYTES / gpu_seconds(lambda: target.copy_(source))


def gpu_seconds(work: Callable[[], object], repetitions: int = 10) -> float:
    """The median over repetitions, by the GPU's own clock."""
    for _ in range(3):
        work()
    return statistics.median(_on_gpu(work) for _ in range(repetitions))


def _on_gpu(work: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def _cpu_seconds(
    work: Callable[[], object], budget: float, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, ...]:
    """Of each repetition: as many as there is time for, five at least. The first, which also starts threads, is left
    out."""
    work()
    seconds: list[float] = []
    while len(seconds) < 5 or sum(seconds) < budget:
        start = clock()
        work()
        seconds.append(clock() - start)
    return tuple(seconds)


def _cpu_model() -> str:
    """By its name. On arm64 the system's file has numbers alone, which lscpu knows names for."""
    try:
        shown = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if "model name" not in shown:
            shown = subprocess.run(["lscpu"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        shown = ""
    models = [line.partition(":")[2].strip() for line in shown.splitlines() if line.lower().startswith("model name")]
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
