"""What the commands that let a language model write have in common: how one is named, and what its server did."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.output import say

if TYPE_CHECKING:
    from nearer.construct.requests import Engine

LLM_HELP = (
    "Language model: a folder, a GGUF file, a hub name, or a server with OpenAI's chat API (http://HOST/v1#MODEL)."
)
ON_CPU, ON_GPU, ON_SERVER = 16, 64, 32
BATCH_HELP = (
    "How many {} are written at the same time; with a server, requests in flight. Default: "
    f"{ON_CPU} on a CPU, {ON_GPU} on a GPU, {ON_SERVER} with a server."
)


class KindName(StrEnum):
    auto = "auto"
    transformers = "transformers"
    llama_cpp = "llama.cpp"


Kind = Annotated[KindName, typer.Option(help="What runs the language model.")]
Temperature = Annotated[
    float,
    typer.Option(callback=options.finite, min=0, help="Temperature of sampling; 0 always takes the likeliest token."),
]
TopP = Annotated[
    float,
    typer.Option(
        callback=options.finite,
        min=0,
        max=1,
        help="Draw from the likeliest tokens that together are so probable.",
    ),
]
Precision = Annotated[
    str | None, typer.Option(help="Precision of the language model. Default: float32 on a CPU, bf16 on a GPU.")
]


def choose_batch(asked: int | None, llm: str, device: str | None) -> int:
    """On a GPU a step takes about as long for many rows as for few, so more of them are given to it."""
    from nearer.construct.engines import is_server

    if asked is not None:
        return asked
    if is_server(llm):
        return ON_SERVER
    import torch

    return ON_GPU if torch.cuda.is_available() and not str(device or "").startswith("cpu") else ON_CPU


def tell_troubles(engine: Engine | None) -> None:
    """What a server did that was mended by asking again."""
    troubles: Counter[str] | None = getattr(engine, "troubles", None)
    if troubles:
        counted = ", ".join(f"{kind} {count:,}" for kind, count in troubles.most_common())
        say(f"  the server's failures, all asked again: {counted}")
