"""Where the time of our training step goes, by kinds of kernels."""

from __future__ import annotations

import re
from typing import Any

import torch

from benchmarks.timing import Steps, time_steps

STEPS = 5
SHOWN = 15
# The first that fits decides. Names of CUDA kernels, and of torch's operations where there is no GPU.
KINDS = (
    ("optimiser", r"adam|multi_tensor|foreach|lpnorm|clip"),
    ("attention", r"flash|fmha|attention|sdpa|softmax"),
    ("matrix products", r"gemm|gemv|nvjet|cutlass|wgmma|xmma|splitk|::(mm|addmm|bmm|baddbmm|linear)\b|mkldnn_linear"),
    ("embedding", r"embedding|index|gather|scatter|sort"),
    ("copies", r"memcpy|memset|::copy_|::_to_copy|::fill_|::zero_"),
    (
        "elementwise and normalisation",
        r"triton|norm|elementwise|reduce|gelu|tanh|dropout|bernoulli|::(add|mul|div|sum)",
    ),
)
OTHER = "other"


def profile_steps(steps: Steps, warm_up: int, device: torch.device) -> dict[str, Any]:
    """Time by kind and by kernel, over a few steps."""
    from torch.profiler import ProfilerActivity, profile

    time_steps(steps, warm_up)
    wall = time_steps(steps, STEPS)
    activity = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiler:
        time_steps(steps, STEPS)
    kernels = []
    for event in profiler.key_averages():
        if getattr(event, "is_user_annotation", False):
            continue  # a named stretch of time, whose kernels are there themselves
        microseconds = event.self_device_time_total if device.type == "cuda" else event.self_cpu_time_total
        if microseconds > 0:
            kernels.append((event.key, microseconds / 1000 / STEPS, event.count / STEPS))
    kernels.sort(key=lambda kernel: -kernel[1])
    busy = sum(milliseconds for _, milliseconds, _ in kernels)
    unit = "GPU" if device.type == "cuda" else "CPU"
    return {
        "title": f"where the {unit} time of a step goes: {busy:.2f} ms in kernels, {1000 * wall:.2f} ms on the wall",
        "busy_milliseconds": busy,
        "wall_milliseconds": 1000 * wall,
        "groups": _groups(kernels, busy),
        "kernels": [
            {"name": name, "kind": kind_of(name), "milliseconds": milliseconds, "launches": launches}
            for name, milliseconds, launches in kernels[:SHOWN]
        ],
    }


def kind_of(kernel: str) -> str:
    return next((kind for kind, pattern in KINDS if re.search(pattern, kernel.lower())), OTHER)


def _groups(kernels: list[tuple[str, float, float]], busy: float) -> list[dict[str, Any]]:
    groups = []
    for kind in (*[kind for kind, _ in KINDS], OTHER):
        own = [(milliseconds, launches) for name, milliseconds, launches in kernels if kind_of(name) == kind]
        if own:
            spent = sum(milliseconds for milliseconds, _ in own)
            launches = sum(launches for _, launches in own)
            groups.append({"kind": kind, "milliseconds": spent, "share": spent / busy, "launches": launches})
    return sorted(groups, key=lambda group: -group["milliseconds"])
