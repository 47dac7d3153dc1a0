"""From a model's name to a folder: a folder, a bundled model, the user's models folder, or the Hugging Face hub."""

from __future__ import annotations

import os
from pathlib import Path

from nearer.errors import ModelError, first_line

BUNDLED = Path(__file__).parent.parent / "bundled"
BUNDLED_MODELS = ("wiki-mini",)
MODELS_VARIABLE = "NEARER_MODELS"
# Nothing pickled is fetched, and no weights of other frameworks.
FETCHED = ["*.json", "*.txt", "*.model", "*.spm", "*.jinja", "*.safetensors", "*.npy"]
IGNORED = ["onnx/*", "openvino/*", "*.bin", "*.h5", "*.msgpack", "*.ot"]


def model_folder(name: str | Path, *, revision: str | None = None, remote_code: bool = False) -> Path:
    """The folder that holds the model; hub names are fetched (weights as safetensors only)."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        raise ModelError(f"{name}: is a file, a model is a folder (or a name on the Hugging Face hub).")
    name = str(name)
    if name in BUNDLED_MODELS:
        return BUNDLED / name
    for root in filter(None, os.environ.get(MODELS_VARIABLE, "").split(os.pathsep)):
        if (Path(root).expanduser() / name).is_dir():
            return Path(root).expanduser() / name
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or not name:
        raise ModelError(f"{name}: no such folder.")
    return _fetched(name, revision, remote_code)


def _fetched(name: str, revision: str | None, remote_code: bool) -> Path:
    from huggingface_hub import snapshot_download

    patterns = [*FETCHED, "*.py"] if remote_code else FETCHED
    # sentence-transformers' own models go by their short names too
    candidates = [name] if "/" in name else [f"sentence-transformers/{name}", name]
    reasons = []
    for candidate in candidates:
        try:
            return Path(
                snapshot_download(candidate, revision=revision, allow_patterns=patterns, ignore_patterns=IGNORED)
            )
        except Exception as error:  # the hub client's, the network's and the file system's errors alike
            reasons.append(first_line(error))
    raise ModelError(
        f"{name}: neither a folder here nor to be had from the Hugging Face hub ({reasons[-1]}). "
        f"Bundled: {', '.join(BUNDLED_MODELS)}; other models by name from the folder in ${MODELS_VARIABLE}."
    )
