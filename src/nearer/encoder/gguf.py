"""Language models of a folder or of a GGUF file, the packed form in which many are passed around.

To become an encoder, a GGUF file is unpacked into a folder in the cache, once. Everything that nearer does with a model
then works with it, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from filelock import FileLock

from nearer.errors import ModelError, first_line
from nearer.extras import require
from nearer.storage.cache import cache_folder
from nearer.storage.whole import whole_folder

MAGIC = b"GGUF"


def check_gguf(path: Path) -> Path:
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ModelError(f"{path}: is not a GGUF file; other models are folders.")
    return path


def load_causal_model(path: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """A causal language model of a folder or a GGUF file, whose weights are unpacked; and its tokenizer."""
    import transformers

    source, unpacked = _arguments(path) if path.is_file() else ({"pretrained_model_name_or_path": str(path)}, {})
    family: Any = transformers.AutoModelForCausalLM
    try:
        with _without_progress_bars(), _reading_once() if path.is_file() else nullcontext():
            model = family.from_pretrained(**source, **unpacked, dtype=dtype)
            return model, transformers.AutoTokenizer.from_pretrained(**source)
    except Exception as error:  # whatever transformers, safetensors, tokenizers and gguf raise
        raise ModelError(f"{path}: is no causal language model that can be loaded ({first_line(error)}).") from error


def unpacked_copy(path: Path) -> Path:
    """The file's model as a folder in the cache; made when it is first asked for, and anew when the file changes.

    Weights are stored in float16, which has more digits than packed ones; in float32 if one is too large for that.
    """
    check_gguf(path)
    facts = path.stat()
    named = f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}"
    out = cache_folder("unpacked") / hashlib.blake2b(named.encode(), digest_size=16).hexdigest()
    with FileLock(out.with_suffix(".lock")):
        if not out.is_dir():
            model, tokenizer = load_causal_model(path, torch.float32)
            vars(model.config).pop("quantization_config", None)  # it is unpacked now
            largest = torch.finfo(torch.float16).max
            if all(bool(weight.abs().max() <= largest) for weight in model.parameters()):
                model = model.to(torch.float16)
            with whole_folder(out) as folder, _without_progress_bars():
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
    return out


def _arguments(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """For transformers' `from_pretrained`: what names a GGUF file, and what unpacks its weights."""
    import transformers

    for package in ("gguf", "accelerate"):
        require(package, "llm", f"{path}: reading a GGUF file")
    unpacked: dict[str, Any] = {}
    if hasattr(transformers, "GgufConfig"):  # newer ones would leave it packed where they have kernels for that
        unpacked = {"quantization_config": transformers.GgufConfig(dequantize=True)}
    return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}, unpacked


@contextmanager
def _reading_once() -> Iterator[None]:
    """Within it, gguf reads a file's facts once.

    transformers asks for them three times (configuration, weights, tokenizer), of which each takes seconds for a
    vocabulary of 150,000, and for the names of all tensors once for every module of the model.
    """
    import gguf

    with (
        mock.patch.object(gguf, "GGUFReader", cache(gguf.GGUFReader)),
        mock.patch.object(gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map)),
    ):
        yield


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Those of transformers."""
    from transformers.utils import logging

    progress: Any = logging
    bars = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            progress.enable_progress_bar()
