"""Checkpoints of a run: everything needed to go on exactly, written whole or not at all, without pickle."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from nearer.errors import TrainingError

MOMENTS = ("exp_avg", "exp_avg_sq")


def save_checkpoint(folder: Path, step: int, model: nn.Module, optimiser: Optimizer, state: dict[str, Any]) -> Path:
    """Write `folder/step-N` and remove the older ones."""
    place = folder / f"step-{step:08d}"
    building = folder / f".building-{uuid.uuid4().hex[:8]}"
    try:
        building.mkdir(parents=True)
        weights = model.state_dict()
        tied = _tied(weights)
        own = {name: tensor for name, tensor in weights.items() if name not in tied}
        save_file(_plain(own), building / "weights.safetensors")
        save_file(_plain(_moments(model, optimiser)), building / "optimiser.safetensors")
        (building / "state.json").write_text(json.dumps({**state, "step": step}, indent=2), encoding="utf-8")
        if place.exists():
            shutil.rmtree(place)
        building.rename(place)
        for old in _all(folder):
            if old != place:
                shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(building, ignore_errors=True)
        last = latest_checkpoint(folder)
        kept = f"the last good one is {last}" if last else "there is none yet"
        raise TrainingError(f"{place}: the checkpoint cannot be written ({error.strerror or error}); {kept}.") from None
    return place


def latest_checkpoint(folder: Path) -> Path | None:
    return max(_all(folder), default=None, key=lambda path: path.name)


def load_checkpoint(place: Path, model: nn.Module, optimiser: Optimizer) -> dict[str, Any]:
    """Put a checkpoint's weights and moments in place; returns its state."""
    try:
        state: dict[str, Any] = json.loads((place / "state.json").read_text(encoding="utf-8"))
        weights = load_file(place / "weights.safetensors")
        moments = load_file(place / "optimiser.safetensors")
    except Exception as error:
        raise TrainingError(f"{place}: the checkpoint cannot be read ({error}).") from None
    # a weight with several names is there under its first; the model says which are tied, and stays so
    weights |= {name: weights[first] for name, first in _tied(model.state_dict()).items() if first in weights}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise TrainingError(f"{place}: does not fit the model ({str(error).splitlines()[0]}).") from None
    for name, parameter in _trained(model):
        if f"{name}:{MOMENTS[0]}" in moments:
            # the step count too: fused AdamW keeps it where the weight is
            keys = (*MOMENTS, "step")
            optimiser.state[parameter] = {key: moments[f"{name}:{key}"].to(parameter.device) for key in keys}
    return state


def clear_unfinished(run: Path) -> None:
    """Remove what a killed process left half-written: checkpoints, the best model, the finished one."""
    for path in (*run.glob("checkpoints/.building-*"), *run.glob("checkpoints/.best-*"), *run.glob(".model-*")):
        shutil.rmtree(path, ignore_errors=True)


def _all(folder: Path) -> list[Path]:
    return [path for path in folder.glob("step-*") if path.is_dir()]


def _trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def _moments(model: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
    moments = {}
    for name, parameter in _trained(model):
        for key, value in optimiser.state.get(parameter, {}).items():
            moments[f"{name}:{key}"] = value
    return moments


def _tied(weights: dict[str, Tensor]) -> dict[str, str]:
    """Names of weights that are another's as well (T5's embeddings have three), with the first of that weight."""
    first: dict[tuple[int, torch.Size], str] = {}
    tied = {}
    for name, tensor in weights.items():
        key = (tensor.data_ptr(), tensor.shape)
        if tensor.numel() and key in first:
            tied[name] = first[key]
        first.setdefault(key, name)
    return tied


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
