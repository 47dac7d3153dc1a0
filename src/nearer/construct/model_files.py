"""Where language models lie: a folder of transformers, or one GGUF file; by name, by path or on the hub."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from nearer.encoder.backbone import check_model_folder
from nearer.encoder.gguf import check_gguf
from nearer.encoder.sources import FETCHED, IGNORED, MODELS_VARIABLE, find_folder
from nearer.errors import ModelError, first_line

DECIDING = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".gguf")


def find_language_model(name: str | Path) -> Path:
    """The folder, or the GGUF file, that holds the model. Names on the Hugging Face hub are fetched."""
    for path in _possible_paths(str(name)):
        if path.is_file():
            return check_gguf(path)
        if path.is_dir():
            return _in_folder(path)
    name = str(name)
    if name.startswith((".", "/", "~")) or name.endswith(".gguf") or name.count("/") != 1:
        raise ModelError(
            f"{name}: no such folder or file; a name on the Hugging Face hub has the form maker/model, other names "
            f"are looked for in the folders of ${MODELS_VARIABLE}."
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=[*FETCHED, "*.jinja"], ignore_patterns=IGNORED))
    except Exception as error:  # the hub client's, the network's and the file system's errors alike
        raise ModelError(
            f"{name}: neither a folder here nor to be had from the Hugging Face hub ({first_line(error)})."
        ) from None


def digest(path: Path) -> str:
    """Of all files that decide what a model says: weights, settings, tokenizer and template."""
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.suffix in DECIDING)
    whole = hashlib.blake2b(digest_size=16)
    for file in files:
        with open(file, "rb") as content:
            whole.update(f"{file.name if path.is_dir() else ''} {file.stat().st_size} ".encode())
            while piece := content.read(1 << 22):
                whole.update(piece)
    return whole.hexdigest()


def _possible_paths(name: str) -> list[Path]:
    roots = [root for root in os.environ.get(MODELS_VARIABLE, "").split(os.pathsep) if root]
    known = [Path(root).expanduser() / spelt for root in roots for spelt in (name, f"{name}.gguf")]
    return [Path(name).expanduser(), *known]


def _in_folder(folder: Path) -> Path:
    if (folder / "config.json").is_file():
        return folder
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return check_gguf(files[0])
    found = "several GGUF files; name one of them" if files else "neither a config.json nor a GGUF file"
    raise ModelError(f"{folder}: holds {found}.")


# Marian's tokenizers, chat templates, and weights of models that are only to be had pickled (read without running code)
FURTHER = ["*.spm", "*.jinja", "pytorch_model.bin"]


def generator_folder(name: str) -> Path:
    """The folder with the model's configuration and weights; hub names are fetched."""
    folder = find_folder(name)
    check_model_folder(folder)
    if not _has_weights(folder) and not Path(name).expanduser().is_dir():
        _fetch_further(name)
    if not _has_weights(folder):
        raise ModelError(f"{folder}: has no weights (model.safetensors or pytorch_model.bin).")
    return folder


def _has_weights(folder: Path) -> bool:
    return any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))


def _fetch_further(name: str) -> None:
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(name, allow_patterns=FURTHER)
    except Exception as error:  # the hub client's, the network's and the file system's errors alike
        raise ModelError(
            f"{name}: its weights are not to be had from the Hugging Face hub ({first_line(error)})."
        ) from error
