"""Checkpoints of a run: everything needed to go on exactly, written whole or not at all, without pickle.

    checkpoints/step-00000250/   weights, moments, state.json and checksums of these; the last two are kept
    checkpoints/best-00000200/   the best weights so far, as a model, of each of them
    checkpoints/stopped-00000250/   what was learnt when the run was asked to stop, as a model; until it ends

A run goes on from the newest that is whole. Its predecessor is there for a disk that has lost or changed the newest.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from nearer.encoder import Encoder
from nearer.errors import DamagedError, ModelError, TrainingError
from nearer.storage.checksums import check_folder
from nearer.storage.whole import whole_folder
from nearer.typed_files import read_json

MOMENTS = ("exp_avg", "exp_avg_sq")


def save_checkpoint(folder: Path, step: int, model: nn.Module, optimiser: Optimizer, state: dict[str, Any]) -> Path:
    """Write `folder/step-N`, and remove what neither it nor the one before it needs."""
    newest = folder / f"step-{step:08d}"
    with whole_folder(newest, overwrite=True) as building:
        weights = model.state_dict()
        tied = _tied(weights)
        own = {name: tensor for name, tensor in weights.items() if name not in tied}
        save_file(_plain(own), building / "weights.safetensors")
        save_file(_plain(_moments(model, optimiser)), building / "optimiser.safetensors")
        (building / "state.json").write_text(json.dumps({**state, "step": step}, indent=2), encoding="utf-8")
    before = max((path for path in _all(folder) if path.name < newest.name), default=None)
    steps = {_best_step(path) for path in (newest, before) if path is not None}
    needed = {best_folder(folder, best) for best in steps if best is not None}
    for path in (*_all(folder), *folder.glob("best-*")):
        if path not in (newest, before) and path not in needed:
            shutil.rmtree(path, ignore_errors=True)
    return newest


def cannot_be_saved(folder: Path, error: ModelError) -> TrainingError:
    last = latest_checkpoint(folder)
    kept = f"the last good one is {last}" if last else "there is none yet"
    return TrainingError(
        f"the checkpoint cannot be written: {str(error).rstrip('.')}; {kept}. Make room, then go on with: nearer train "
        f"--resume {folder.parent}"
    )


def latest_checkpoint(folder: Path) -> Path | None:
    return max(_all(folder), default=None, key=lambda path: path.name)


def whole_checkpoint(folder: Path, *, finished: bool = False) -> tuple[Path | None, list[str]]:
    """The newest that is as it was written, with a remark on each newer one that is not.

    finished: the run has its model, and the best weights are nowhere else any more.
    """
    remarks: list[str] = []
    found = sorted(_all(folder), reverse=True)
    for path in found:
        try:
            check_folder(path, "an older one is taken")
            json.loads((path / "state.json").read_bytes())
            step = None if finished else _best_step(path)
            if step is not None and not best_folder(folder, step).is_dir():
                raise DamagedError(f"{best_folder(folder, step)}: is missing")
            if step is not None:
                check_folder(best_folder(folder, step), "an older one is taken")
            return path, remarks
        except (DamagedError, OSError, ValueError) as error:
            remarks.append(f"{path.name} cannot be used: {error}")
    if found:
        raise TrainingError(
            f"{folder}: no checkpoint is whole ({remarks[0]}). Start the run anew, with another folder."
        )
    return None, []


def best_folder(folder: Path, step: int) -> Path:
    """Where the best weights of a run lie, as a model, if they are those of this step."""
    return folder / f"best-{step:08d}"


def stopped_folder(folder: Path, step: int) -> Path:
    """Where the model of a run lies that was asked to stop after this step."""
    return folder / f"stopped-{step:08d}"


def load_checkpoint(folder: Path, model: nn.Module, optimiser: Optimizer) -> dict[str, Any]:
    """Load a checkpoint's weights and moments; returns its state."""
    try:
        state = read_json(folder / "state.json", dict[str, Any], error=TrainingError)
        weights = load_file(folder / "weights.safetensors")
        moments = load_file(folder / "optimiser.safetensors")
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(f"{folder}: the checkpoint cannot be read ({error}).") from None
    # a weight with several names is there under its first; the model says which are tied, and stays so
    weights |= {name: weights[first] for name, first in _tied(model.state_dict()).items() if first in weights}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise TrainingError(f"{folder}: does not fit the model ({str(error).splitlines()[0]}).") from None
    for name, parameter in _trained(model):
        if f"{name}:{MOMENTS[0]}" in moments:
            # the step count too: fused AdamW keeps it where the weight is
            keys = (*MOMENTS, "step")
            optimiser.state[parameter] = {key: moments[f"{name}:{key}"].to(parameter.device) for key in keys}
    return state


def _all(folder: Path) -> list[Path]:
    return [path for path in folder.glob("step-*") if path.is_dir()]


def _best_step(checkpoint: Path) -> int | None:
    try:
        step = json.loads((checkpoint / "state.json").read_bytes()).get("best_step")
    except (OSError, ValueError, AttributeError):
        return None
    return step if isinstance(step, int) else None


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


class Best:
    """Keeps a copy of an encoder's weights, and writes it among the checkpoints under its step."""

    def __init__(self, encoder: Encoder, checkpoints: Path) -> None:
        self.encoder = encoder
        self.checkpoints = checkpoints
        self._step = 0
        self._weights: list[Tensor] | None = None

    @torch.no_grad()
    def keep(self, step: int) -> None:
        self._step = step
        weights = self._current()
        if self._weights is None:
            self._weights = [torch.empty_like(weight) for weight in weights]
        torch._foreach_copy_(self._weights, weights)

    def write(self) -> None:
        """To the folder, if there is anything new."""
        if self._weights is None:
            return
        current = [weight.clone() for weight in self._current()]
        self._put(self._weights)
        try:
            self.encoder.save(best_folder(self.checkpoints, self._step), overwrite=True)
        finally:
            self._put(current)
        self._weights = None

    @torch.no_grad()
    def _put(self, weights: list[Tensor]) -> None:
        torch._foreach_copy_(self._current(), weights)

    def _current(self) -> list[Tensor]:
        """Weights, and buffers such as the running means of a batch norm."""
        return [tensor.detach() for tensor in (*self.encoder.parameters(), *self.encoder.buffers())]
