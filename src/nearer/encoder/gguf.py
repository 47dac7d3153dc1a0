"""GGUF files, in which language models are passed around: their weights unpacked, as transformers reads them.

An encoder of such a file is read from a folder with the same weights, which is made in the cache when it is first asked
for: everything else that nearer does with a model is then as with any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


def gguf_arguments(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """For transformers' `from_pretrained`: what names the file, and what unpacks its weights."""
    import transformers

    for package in ("gguf", "accelerate"):
        require(package, "llm", f"{path}: reading a GGUF file")
    unpacked: dict[str, Any] = {}
    if hasattr(transformers, "GgufConfig"):  # newer ones would leave it packed where they have kernels for that
        unpacked = {"quantization_config": transformers.GgufConfig(dequantize=True)}
    return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}, unpacked


def unpacked_copy(path: Path) -> Path:
    """The file's model as a folder in the cache; made when it is first asked for, and anew when the file changes.

    Weights are stored in float16: a packed one has fewer digits than that.
    """
    check_gguf(path)
    facts = path.stat()
    named = f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}"
    out = cache_folder("unpacked") / hashlib.blake2b(named.encode(), digest_size=16).hexdigest()
    with FileLock(out.with_suffix(".lock")):
        if not out.is_dir():
            model, tokenizer = _load(path)
            with whole_folder(out) as folder, no_bars():
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
    return out


def _load(path: Path) -> tuple[Any, Any]:
    import transformers

    source, unpacked = gguf_arguments(path)
    try:
        with no_bars():
            family: Any = transformers.AutoModelForCausalLM
            model = family.from_pretrained(**source, **unpacked, dtype=torch.float32)
            tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    except Exception as error:  # whatever transformers, tokenizers and gguf raise
        raise ModelError(f"{path}: is no causal language model that can be loaded ({first_line(error)}).") from error
    vars(model.config).pop("quantization_config", None)  # it is unpacked now
    most = torch.finfo(torch.float16).max
    fits = all(bool(weight.abs().max() <= most) for weight in model.parameters())
    return model.to(torch.float16 if fits else torch.float32), tokenizer


@contextmanager
def no_bars() -> Iterator[None]:
    """Without transformers' own progress bars."""
    from transformers.utils import logging

    progress: Any = logging
    bars = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            progress.enable_progress_bar()
