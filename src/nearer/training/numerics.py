"""What a run's bits depend on besides its settings: chosen once, recorded, and the same again when the run goes on.

torch has switches for the whole process, and whatever ran there before may have turned them. The worst turns itself:
when a product by oneDNN fails (bfloat16 on an ARM processor without instructions for it), torch switches oneDNN off
for good, and from then on every product in float32 is computed by another library, with other last bits. A run
therefore sets what it depends on and puts it back at its end.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from nearer.distributed import from_first, world_size
from nearer.errors import SettingError

# Read by the libraries when a process starts: they choose other kernels, and nothing can be done about it later
KERNEL_VARIABLES = (
    *("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"),
    *("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_CORETYPE", "OMP_DYNAMIC"),
    *("CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"),
)
# Both sides of a product that oneDNN is asked for; torch computes smaller ones without it
ONEDNN_SIDE = 64
# Numbers that one thread is given at least, so that so many threads all have some
GRAIN = 2**16
DENORMAL = 1e-39

ONEDNN: Any = torch.backends.mkldnn  # its attributes are made when they are asked for, which types do not know


@dataclass(frozen=True)
class Numerics:
    """What decides a run's bits besides its settings and its libraries' versions.

    device: the GPU, or the CPU and the instructions that torch uses of it. threads: of each process; None on a GPU,
    where they decide nothing. onednn: whether its matrix products are used. environment: variables that choose kernels.
    """

    device: str
    processes: int
    threads: int | None
    onednn: bool
    environment: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def choose_numerics(noted: object, device: torch.device, precision: str) -> tuple[Numerics, list[str]]:
    """For a new run those of this process, for one that goes on the recorded ones as far as they can be had here.

    noted: what config.yaml has; None for a new run. Also returns what the user should know.
    """
    here = from_first(_of_this_process(device, precision))
    if noted is None:
        return here, []
    recorded = _read(noted)
    chosen = Numerics(
        device=here.device,
        processes=here.processes,
        threads=None if here.threads is None else recorded.threads or here.threads,
        onednn=here.onednn and recorded.onednn,
        environment=here.environment,
    )
    remarks = []
    if chosen.threads != here.threads:
        remarks.append(f"threads: {chosen.threads}, as the run was started with (this process has {here.threads})")
    if differences := _differences(recorded, chosen):
        remarks.append(
            "warning: the weights will not be those of an uninterrupted run to the bit, since the run was started "
            f"elsewhere: {'; '.join(differences)}"
        )
    return chosen, remarks


def changed_libraries(recorded: Mapping[str, Any], present: Mapping[str, str]) -> list[str]:
    """The remark, if any, that a run goes on with other versions than it was started with."""
    changed = [
        f"{name} was {recorded[name]}, is {present.get(name, 'missing')}"
        for name in recorded
        if recorded[name] != present.get(name)
    ]
    if not changed:
        return []
    return [f"warning: the weights may not be those of an uninterrupted run to the bit: {'; '.join(changed)}"]


@contextmanager
def pinned(numerics: Numerics, device: torch.device) -> Iterator[list[str]]:
    """The process computes with these until the end of the block, and then as before. Yields what cannot be set."""
    with ExitStack() as stack:
        for read, write, value in _switches(numerics):
            before = read()
            write(value)
            stack.callback(write, before)
        stack.enter_context(torch.autocast(device.type, enabled=False))
        remarks = []
        if numerics.threads is not None and _flushed(GRAIN * numerics.threads):
            remarks.append(
                "warning: threads of this process count numbers below 1e-38 as 0 (torch.set_flush_denormal, or a "
                "library, did it before they started); if bits matter, train in a process of its own"
            )
        yield remarks


def onednn_failed(numerics: Numerics) -> list[str]:
    """The remark, if any, that torch has switched oneDNN off since the run began."""
    if ONEDNN.enabled == numerics.onednn:
        return []
    return [
        "warning: a matrix product by oneDNN failed during the run and torch went on without it; the same run may not "
        "give the same bits again"
    ]


def _of_this_process(device: torch.device, precision: str) -> Numerics:
    on_cpu = device.type == "cpu"
    return Numerics(
        device=f"{_cpu()}, {torch.backends.cpu.get_cpu_capability()}" if on_cpu else torch.cuda.get_device_name(device),
        processes=world_size(),
        threads=torch.get_num_threads() if on_cpu else None,
        onednn=_onednn_works(torch.bfloat16 if on_cpu and precision == "bf16" else torch.float32),
        environment={name: os.environ[name] for name in KERNEL_VARIABLES if name in os.environ},
    )


def _onednn_works(dtype: torch.dtype) -> bool:
    """Tried with a product, since a failure in the middle of a run would switch it off there."""
    read, write = _onednn()
    before = read()
    write(True)
    try:
        with warnings.catch_warnings(), torch.autocast("cpu", enabled=False):
            warnings.simplefilter("ignore")  # that it failed, with a C++ traceback
            ones = torch.ones(ONEDNN_SIDE, ONEDNN_SIDE, dtype=dtype)
            torch.nn.functional.linear(ones, ones)
        return bool(read())
    finally:
        write(before)


def _read(recorded: object) -> Numerics:
    names = [field.name for field in fields(Numerics)]
    if not isinstance(recorded, dict) or any(name not in recorded for name in names):
        raise SettingError(f"numerics: is not what a run records ({', '.join(names)}); remove it from config.yaml.")
    threads = recorded["threads"]
    if threads is not None and (type(threads) is not int or threads < 1):
        raise SettingError(f"numerics: threads: {threads!r} is no number of threads; mend it in config.yaml.")
    return Numerics(**{name: recorded[name] for name in names})


def _differences(recorded: Numerics, chosen: Numerics) -> list[str]:
    pairs = [(field.name, getattr(recorded, field.name), getattr(chosen, field.name)) for field in fields(Numerics)]
    return [f"{name} was {before}, is {now}" for name, before, now in pairs if before != now]


Switch = tuple[Callable[[], Any], Callable[[Any], object], Any]


def _switches(numerics: Numerics) -> list[Switch]:
    """How each is read, how it is set, and what it is during a run: what `precision` says, by the usual kernels."""
    attention = torch.backends.cuda  # these are for the CPU as well
    switches: list[Switch] = [
        (*_onednn(), numerics.onednn),
        (_float32_precision, _set_float32_precision, ("highest", "ieee", "ieee")),
        (torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        (_flushed, torch.set_flush_denormal, False),
        (attention.flash_sdp_enabled, attention.enable_flash_sdp, True),
        (attention.mem_efficient_sdp_enabled, attention.enable_mem_efficient_sdp, True),
        (attention.cudnn_sdp_enabled, attention.enable_cudnn_sdp, True),
        (attention.math_sdp_enabled, attention.enable_math_sdp, True),
    ]
    if numerics.threads is not None:
        # set even if it is this number: MKL decides for itself until it is told
        switches.append((torch.get_num_threads, torch.set_num_threads, numerics.threads))
    return switches


def _onednn() -> tuple[Callable[[], Any], Callable[[Any], object]]:
    return lambda: ONEDNN.enabled, lambda on: setattr(ONEDNN, "enabled", on)


def _float32_precision() -> tuple[str | None, str, str]:
    try:
        general = torch.get_float32_matmul_precision()
    except RuntimeError:  # set for single libraries, by other calls
        general = None
    return general, ONEDNN.matmul.fp32_precision, torch.backends.cuda.matmul.fp32_precision


def _set_float32_precision(value: tuple[str | None, str, str]) -> None:
    general, onednn, cuda = value
    if general is not None:
        torch.set_float32_matmul_precision(general)
    ONEDNN.matmul.fp32_precision = onednn
    torch.backends.cuda.matmul.fp32_precision = cuda


def _flushed(numbers: int = 1) -> bool:
    """Whether numbers below 1e-38 become 0 on this thread, or with many numbers on any that torch computes with."""
    return bool((torch.full((numbers,), DENORMAL, dtype=torch.float32) * 1.0 == 0).any())


def _cpu() -> str:
    """The processor's name, or on ARM the numbers of its maker and its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))}
    arm = [facts[name] for name in ("CPU implementer", "CPU part") if name in facts]
    return facts.get("model name") or " ".join([platform.machine(), *arm])
