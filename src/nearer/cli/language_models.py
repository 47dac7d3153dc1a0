"""What the commands that let a language model write have in common: how one is named, and what its server did."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from nearer.cli.output import say

if TYPE_CHECKING:
    from nearer.construct.requests import Engine

LLM_HELP = (
    "Language model: a folder, a GGUF file, a hub name, or a server with OpenAI's chat API (http://HOST/v1#MODEL)."
)
BATCH_HELP = "How many {} are written at the same time; with a server, requests in flight."


class KindName(StrEnum):
    auto = "auto"
    transformers = "transformers"
    llama_cpp = "llama.cpp"


def tell_troubles(engine: Engine | None) -> None:
    """What a server did that was mended by asking again."""
    troubles: Counter[str] | None = getattr(engine, "troubles", None)
    if troubles:
        counted = ", ".join(f"{kind} {count:,}" for kind, count in troubles.most_common())
        say(f"  the server's failures, all asked again: {counted}")
