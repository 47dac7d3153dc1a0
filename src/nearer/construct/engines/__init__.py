"""Engines that answer requests for sentences: transformers on CPU and GPU, llama.cpp for GGUF files on the CPU, and any
server with OpenAI's chat API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nearer.construct.engines.server_address import Server, is_server
from nearer.construct.model_files import find_language_model
from nearer.errors import SettingError

if TYPE_CHECKING:
    import torch

    from nearer.construct.requests import Engine

__all__ = ["Kind", "is_server", "load_engine"]
Kind = Literal["auto", "transformers", "llama.cpp"]


def load_engine(
    model: str | Path,
    *,
    kind: Kind = "auto",
    batch: int = 16,
    max_new_tokens: int = 100,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    device: str | torch.device | None = None,
    precision: str | None = None,
) -> Engine:
    """A causal language model by name, folder, GGUF file or the address of a server (`http://…`).

    kind: `auto` is transformers for everything; llama.cpp takes GGUF files only, and leaves them packed. batch:
    requests that are answered at once. temperature: 0 is greedy. device: the GPU if there is one. precision: float32 or
    bf16, by default float32 on the CPU and bf16 on a GPU; llama.cpp computes in that of the file. A server chooses all
    this itself: batch is then the number of requests in flight.
    """
    if batch < 1 or max_new_tokens < 1:
        raise SettingError(f"{'batch' if batch < 1 else 'max_new_tokens'}: must be at least 1.")
    if kind not in ("auto", "transformers", "llama.cpp"):
        raise SettingError(f"engine: {kind!r} is not one of auto, transformers, llama.cpp.")
    from nearer.construct.engines.decoding import TokenSampling

    choosing = TokenSampling(temperature, top_p, seed)
    if is_server(model):
        from nearer.construct.engines.chat_server import ChatServerEngine

        for name, given in (("engine", kind if kind != "auto" else None), ("device", device), ("precision", precision)):
            if given is not None:
                raise SettingError(f"{name}: {given} is asked for, but the server at {model} decides it; leave it out.")
        return ChatServerEngine(Server.at(str(model)), choosing, batch, max_new_tokens)
    path = find_language_model(model)
    if kind == "llama.cpp":
        from nearer.construct.engines.llama_cpp import LlamaCppEngine

        if precision is not None or str(device or "cpu") != "cpu":
            raise SettingError("llama.cpp: runs on the CPU in its file's precision; leave device and precision out.")
        return LlamaCppEngine.load(path, choosing, batch, max_new_tokens)
    import torch

    from nearer.construct.engines.transformers_engine import TransformersEngine

    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return TransformersEngine.load(path, choosing, batch, max_new_tokens, where, precision)
