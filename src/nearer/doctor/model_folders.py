"""The user's own models: what lies in the folders of `$NEARER_MODELS`, and whether it can be read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from nearer.doctor.finding import Finding, State
from nearer.errors import first_line

MODELS_VARIABLE = "NEARER_MODELS"
STATIC_WORDS_FILE = "static_words.json"


def model_folders() -> Iterator[Finding]:
    roots = [Path(root).expanduser() for root in os.environ.get(MODELS_VARIABLE, "").split(os.pathsep) if root]
    if not roots:
        yield Finding("models", State.absent, f"{MODELS_VARIABLE} names no folder; models come by path or from the hub")
    for root in roots:
        if root.is_dir():
            yield from _in_folder(root)
        else:
            mend = f"take it out of {MODELS_VARIABLE}, or make the folder"
            yield Finding("models", State.doubtful, f"{root}: no such folder", mend)


def _in_folder(root: Path) -> Iterator[Finding]:
    """One finding about what can be used, and one for each model that cannot."""
    models = []
    for path in sorted(root.iterdir()):
        if path.suffix == ".gguf" or (path / STATIC_WORDS_FILE).is_file():
            models.append(path.name)
        elif path.is_dir() and any((path / name).is_file() for name in ("config.json", "modules.json")):
            fault = _fault(path)
            if fault:
                mend = f"get {path.name} again: its files are incomplete or damaged"
                yield Finding("models", State.doubtful, f"{path}: {fault}", mend)
            else:
                models.append(path.name)
    if models:
        yield Finding("models", State.good, f"{root}: {', '.join(models)}")
    else:
        mend = f"put folders of models there, or take it out of {MODELS_VARIABLE}"
        yield Finding("models", State.doubtful, f"{root}: holds no model that can be used", mend)


def _fault(folder: Path) -> str:
    """What keeps a model from being loaded, as far as its small files tell; empty if nothing does."""
    from transformers import AutoConfig

    inner, kind = "", "Transformer"
    try:
        if (folder / "modules.json").is_file():
            first = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]
            inner, kind = first["path"], str(first["type"]).rpartition(".")[2]
        if kind == "Router":  # whose routes have their own folders
            json.loads((folder / inner / "router_config.json").read_text(encoding="utf-8"))
            return ""
        if kind != "StaticEmbedding":
            AutoConfig.from_pretrained(folder / inner, local_files_only=True)
    except Exception as error:  # json and transformers complain in many ways
        return f"its configuration cannot be read ({first_line(error)})"
    if not any((folder / inner).glob("*.safetensors")):
        if any((folder / inner).glob("pytorch_model*.bin")):
            return "its weights are pickled: `nearer convert` makes safetensors of them"
        return "it has no weights (*.safetensors)"
    return ""
