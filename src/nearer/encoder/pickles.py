"""Pickled weights (`pytorch_model.bin`) made into safetensors, without running what a pickle may hold.

They are read by torch's restricted unpickler (`weights_only=True`), which makes tensors and refuses the rest. A model
that is asked for with `allow_pickle` is converted once into the cache, so everything else reads safetensors only.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor

from nearer.errors import ModelError, first_line
from nearer.storage.cache import cache_folder
from nearer.storage.whole import whole_folder
from nearer.typed_files import FileFacts, read_json

PICKLE_MEND = (
    "its weights are pickled: `nearer convert` makes safetensors of them once and for all, allow_pickle reads them "
    "without running what is in them"
)
PICKLES = "pytorch_model*.bin"
INDEX = "pytorch_model.bin.index.json"
# Weights of other frameworks, and pickles that are no weights of the model: not part of a converted folder.
LEFT_OUT = (".bin", ".h5", ".msgpack", ".ot", ".pt", ".pth", ".pkl", ".ckpt")


@dataclass(frozen=True)
class Converted:
    """What was written. left_out: files of the model's folder that the new one does not have."""

    folder: Path
    files: tuple[str, ...]
    tensors: int
    left_out: tuple[str, ...]


def pickled_folders(folder: Path) -> list[Path]:
    """The model's folder and those of its modules, as far as their weights are there as pickles only."""
    found = {path.parent for path in _files(folder) if path.match(PICKLES)}
    return sorted(part for part in found if not any(part.glob("*.safetensors")))


def convert(folder: Path, out: Path) -> Converted:
    """Write the whole model again, with safetensors instead of its pickles. `out` is there whole or not at all."""
    parts = pickled_folders(folder)
    if not parts:
        has = "safetensors already" if any(folder.rglob("*.safetensors")) else f"no pickled weights ({PICKLES})"
        raise ModelError(f"{folder}: has {has}; there is nothing to convert.")
    written: list[str] = []
    left_out: list[str] = []
    tensors = 0
    with whole_folder(out) as built:
        for path in _files(folder):
            name = path.relative_to(folder)
            if path.suffix in LEFT_OUT or path.name == INDEX:
                if path.parent not in parts or not (path.match(PICKLES) or path.name == INDEX):
                    left_out.append(str(name))
                continue
            (built / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, built / name)
        for part in parts:
            target = built / part.relative_to(folder)
            target.mkdir(parents=True, exist_ok=True)
            files, count = _convert_weights(part, target)
            written += [str((part.relative_to(folder)) / file) for file in files]
            tensors += count
    return Converted(out, tuple(written), tensors, tuple(left_out))


def converted_copy(folder: Path) -> Path:
    """The model with safetensors, in the cache: made when it is first asked for, and anew when a file changes."""
    digest = hashlib.blake2b(str(folder.resolve()).encode(), digest_size=16)
    for path in _files(folder):
        facts = path.stat()
        digest.update(f"{path.relative_to(folder)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    out = cache_folder("converted") / digest.hexdigest()
    with FileLock(out.with_suffix(".lock")):
        if not out.is_dir():
            convert(folder, out)
    return out


def is_converted(folder: Path) -> bool:
    """Whether this is a copy that `converted_copy` made."""
    return folder.parent == cache_folder("converted")


def _files(folder: Path) -> list[Path]:
    """All files of a model, without what version control and downloads keep beside them."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _convert_weights(folder: Path, target: Path) -> tuple[list[str], int]:
    from safetensors.torch import save_file

    named = _shards(folder)
    found: dict[str, str] = {}
    size = 0
    for file in sorted(set(named.values()) if named else {"pytorch_model.bin"}):
        weights = read_pickle(folder / file)
        new = _new_name(file)
        found |= dict.fromkeys(weights, new)
        # each tensor by itself: safetensors refuses two that share their memory, as tied weights do
        plain = {name: tensor.clone().contiguous() for name, tensor in weights.items()}
        save_file(plain, target / new, {"format": "pt"})
        size += sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    if named is not None:
        lost = sorted(name for name, file in named.items() if found.get(name) != _new_name(file))
        if lost:
            raise ModelError(f"{folder / named[lost[0]]}: has no weight {lost[0]!r}, which {INDEX} says it has.")
        index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(found.items()))}
        (target / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return sorted(set(found.values())), len(found)


class WeightIndex(FileFacts):
    weight_map: dict[str, str]


def _shards(folder: Path) -> dict[str, str] | None:
    """The file of each weight, where they are in several."""
    path = folder / INDEX
    if not path.exists():
        if not (folder / "pytorch_model.bin").exists():
            raise ModelError(f"{path}: is missing; the weights are in several files.")
        return None
    named = read_json(path, WeightIndex, error=ModelError, mend="it is not an index of weights").weight_map
    for file in sorted(set(named.values())):
        if Path(file).name != file or not (folder / file).is_file():
            raise ModelError(f"{folder / file}: is missing; {INDEX} names it.")
    return named


def _new_name(file: str) -> str:
    return file.removeprefix("pytorch_").removesuffix(".bin") + ".safetensors"


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, by name. Anything else in it is refused, and nothing of it is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old forms of pickles; what cannot be read is an error
            loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{path}: holds more than weights or is damaged, and was not read ({_refused(error)}); "
            "nothing of it was run."
        ) from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise ModelError(f"{path}: is damaged or no file of weights ({first_line(error)}).") from None
    if not isinstance(loaded, dict) or not loaded:
        raise ModelError(f"{path}: is not a table of weights by name.")
    for name, value in loaded.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.layout is not torch.strided:
            raise ModelError(f"{path}: {str(name)[:80]!r} is {type(value).__name__}, not a plain tensor.")
    return loaded


def _refused(error: pickle.UnpicklingError) -> str:
    """What torch found, out of a text that otherwise advises to read the file unsafely."""
    lines = [line.strip() for line in str(error).splitlines()]
    found = next((line for line in lines if "GLOBAL" in line or "Unsupported" in line), lines[0] if lines else "")
    return found.partition(". Please")[0].partition(" was not an allowed")[0][:160]
