"""Python, the packages and extras against the bounds that the package states, and the machine: what there is to compute
with."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import nearer
from nearer.doctor.findings import Finding, State
from nearer.extras import install_command
from nearer.units import as_bytes

if TYPE_CHECKING:
    from packaging.requirements import Requirement


# what each extra is for; those for working on the project, and those that only collect others, are not shown
PURPOSES = {
    "parquet": "reading and writing Parquet",
    "documents": "reading PDF files",
    "hub": "Hugging Face data sets (hf:NAME)",
    "tensorboard": "training logs for TensorBoard",
    "sentence-transformers": "our losses in sentence-transformers' trainer",
    "plots": "figures as files",
    "mteb": "MTEB's tasks",
    "onnx": "nearer export onnx",
    "search": "nearer search",
    "serve": "nearer serve",
    "construct": "edit distances for debiased samples",
    "translation": "back-translation by Marian models",
    "llm": "language models from GGUF files",
    "llama-cpp": "language models by llama.cpp",
    "ray": "work spread over machines",
    "docs": "make docs",
}
COLLECTIONS = ("all", "dev")
# extras that pip cannot simply bring to Linux on arm64, and why
NOT_READY_MADE = {
    "mteb": "pytrec-eval has no package made for this machine (Linux, arm64): pip needs a C compiler and GitHub for it"
}
PYTHON = "Python"
LITTLE_MEMORY = 2 * 2**30  # BERT-base in training needs about as much
THREADS_VARIABLE = "OMP_NUM_THREADS"


def check_python() -> Iterator[Finding]:
    """The interpreter, and whether the package is installed or only lies on the path."""
    from packaging.specifiers import SpecifierSet

    found = f"{platform.python_version()} ({platform.python_implementation()}), nearer {nearer.__version__}"
    try:
        wanted = metadata("nearer")["Requires-Python"]
    except PackageNotFoundError:
        mend = "install it where its pyproject.toml lies: pip install --editable ."
        yield Finding(PYTHON, State.doubtful, f"{found}, not installed: bounds and extras are unknown", mend)
        return
    if SpecifierSet(wanted).contains(platform.python_version(), prereleases=True):
        yield Finding(PYTHON, State.good, found)
    else:
        yield Finding(PYTHON, State.broken, f"{found}; {wanted} is needed", f"use a Python {wanted}")


def check_packages() -> Iterator[Finding]:
    """The packages that nothing works without: one finding if all are right, else one for each that is not."""
    needed = [requirement for requirement in _requirements("") if requirement.name != "nearer"]
    faults = [(requirement, fault) for requirement in needed if (fault := _fault(requirement))]
    for requirement, fault in faults:
        yield Finding(requirement.name, State.broken, fault, f"pip install '{_line(requirement)}'")
    if needed and not faults:
        shown = ", ".join(f"{requirement.name} {version(requirement.name)}" for requirement in needed)
        yield Finding("packages", State.good, shown)


def check_extras() -> Iterator[Finding]:
    """Each extra: installed, too old, or the line that brings it."""
    for extra in _extras():
        wanted = _requirements(extra)
        faults = [fault for requirement in wanted if (fault := _fault(requirement))]
        name, purpose = f"[{extra}]", PURPOSES.get(extra, ", ".join(requirement.name for requirement in wanted))
        line = install_command(extra)
        if not faults:
            shown = ", ".join(f"{requirement.name} {version(requirement.name)}" for requirement in wanted)
            yield Finding(name, State.good, f"{purpose}: {shown}")
        elif all(fault.endswith("not installed") for fault in faults):
            why = f" ({NOT_READY_MADE[extra]})" if extra in NOT_READY_MADE and _is_linux_on_arm() else ""
            yield Finding(name, State.absent, f"{purpose}: {line}{why}")
        else:
            yield Finding(name, State.doubtful, f"{purpose}: {'; '.join(faults)}", line)


def _is_linux_on_arm() -> bool:
    return platform.system() == "Linux" and platform.machine() in ("aarch64", "arm64")


def _extras() -> list[str]:
    try:
        named = metadata("nearer").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []
    return [extra for extra in named if extra not in COLLECTIONS]


def _requirements(extra: str) -> list[Requirement]:
    """What the package needs here, or what one of its extras adds."""
    from packaging.requirements import Requirement

    try:
        every = [Requirement(line) for line in requires("nearer") or []]
    except PackageNotFoundError:
        return []
    if not extra:
        return [one for one in every if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [one for one in every if one.marker and one.marker.evaluate({"extra": extra}) and "extra" in str(one.marker)]


def _fault(requirement: Requirement) -> str:
    """What is wrong with an installed package; empty if nothing is."""
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if found is None or not requirement.specifier.contains(found, prereleases=True):
        return f"{requirement.name} {found} is installed, {requirement.specifier} is needed"
    return ""


def _line(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def check_torch() -> Iterator[Finding]:
    """Whether torch can be imported, and for what it was built."""
    import torch

    built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU"
    if torch.version.cuda is None and torch.version.hip is None and _has_nvidia():
        mend = "install torch for CUDA: https://pytorch.org/get-started has the line for this machine"
        yield Finding("torch", State.doubtful, f"{torch.__version__}, built for the CPU, but there is a GPU", mend)
    else:
        yield Finding("torch", State.good, f"{torch.__version__}, built for {built_for}")


def check_processor() -> Iterator[Finding]:
    flags = (_cpu_fact("flags") or _cpu_fact("Features")).split()  # x86-64, or arm64
    model = _cpu_fact("model name") or platform.processor() or platform.machine()
    fast = [shown for flag, shown in (("avx512_bf16", "AVX512"), ("amx_bf16", "AMX"), ("bf16", "Arm")) if flag in flags]
    bf16 = f"bf16 by {' and '.join(fast)}" if fast else "no bf16 of its own: train in float32"
    yield Finding("CPU", State.good, f"{model}, {usable_cores()} cores usable, {bf16}")


def check_memory() -> Iterator[Finding]:
    total, free = _memory("MemTotal"), _memory("MemAvailable")
    if total is None or free is None:
        yield Finding("memory", State.good, "unknown on this system")
        return
    found = f"{as_bytes(free)} free of {as_bytes(total)}"
    if free < LITTLE_MEMORY:
        yield Finding("memory", State.doubtful, found, "close other programs; train in pieces: --set piece=64")
    else:
        yield Finding("memory", State.good, found)


def check_threads() -> Iterator[Finding]:
    """Threads beside cores: more of them slow each other down, fewer leave cores idle."""
    import torch

    threads, cores = torch.get_num_threads(), usable_cores()
    named = os.environ.get(THREADS_VARIABLE)
    why = f" ({THREADS_VARIABLE}={named})" if named else ""
    found = f"{threads} for torch, {cores} cores usable{why}"
    if threads > cores:
        yield Finding(
            "threads", State.doubtful, found, f"not more threads than cores: export {THREADS_VARIABLE}={cores}"
        )
    elif named and 2 * threads < cores:  # a core of two threads counts twice, and torch takes it once
        yield Finding("threads", State.doubtful, found, f"to use all cores: unset {THREADS_VARIABLE}")
    else:
        yield Finding("threads", State.good, found)
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in ("0", "false", "off", "no"):
        mend = "to tokenise with all cores: unset TOKENIZERS_PARALLELISM"
        yield Finding("tokenising", State.doubtful, "with one thread (TOKENIZERS_PARALLELISM)", mend)


def check_gpus() -> Iterator[Finding]:
    """Each GPU with its memory, tried with a small product in the precision that training uses."""
    import torch

    if torch.backends.mps.is_available():
        yield Finding("GPU", State.good, "Apple's (mps), to be named by --device mps")
        return
    if not torch.cuda.is_available():
        if torch.version.cuda and _has_nvidia():
            mend = "look at `nvidia-smi`, CUDA_VISIBLE_DEVICES, and whether the driver is new enough for this torch"
            yield Finding("GPU", State.doubtful, "there is one, but torch cannot use it", mend)
        else:
            yield Finding("GPU", State.absent, "none; everything runs on the CPU")
        return
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        free, total = torch.cuda.mem_get_info(number)
        kind = torch.bfloat16 if facts.major >= 8 else torch.float32  # torch itself also counts bf16 that is emulated
        ones = torch.ones(16, 16, device=f"cuda:{number}", dtype=kind)
        found = (
            f"{facts.name}, {as_bytes(free)} free of {as_bytes(total)}, compute capability {facts.major}.{facts.minor}"
        )
        name = f"GPU {number}"
        if float((ones @ ones).sum()) != 16**3:
            yield Finding(name, State.broken, f"{found}: computes wrongly", "leave it out with CUDA_VISIBLE_DEVICES")
        elif kind is torch.float32:
            yield Finding(name, State.doubtful, f"{found}, no bf16", "train with --set precision=float32 on this GPU")
        else:
            yield Finding(name, State.good, f"{found}, bf16")


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _has_nvidia() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _cpu_fact(name: str) -> str:
    """The first line of that name in /proc/cpuinfo; empty where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _memory(name: str) -> int | None:
    """Bytes, as /proc/meminfo has them."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = next((line.split() for line in lines if line.startswith(f"{name}:")), None)
    return None if found is None else 1024 * int(found[1])
