"""Where a generator's files are: as other models', and from the hub also those that only generators have."""

from __future__ import annotations

from pathlib import Path

from nearer.encoder.backbone import check_model_folder
from nearer.encoder.sources import find_folder
from nearer.errors import ModelError, first_line

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
