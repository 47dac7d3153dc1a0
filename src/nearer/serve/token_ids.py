"""Texts that come as token ids of OpenAI's cl100k_base: LangChain's client sends them so unless it is told not to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from nearer.serve.background import ComputedOnce
from nearer.serve.limits import Limits, Refusal, invalid

ENCODING = "cl100k_base"
MEND = "Send text instead; in LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False)."
# Seconds that a request waits for the encoding. tiktoken fetches its file at first use, and would wait for ever.
PATIENCE = 10.0


def load_encoding() -> Any:
    """tiktoken's encoding, from its cache ($TIKTOKEN_CACHE_DIR) or from the network."""
    import tiktoken

    return tiktoken.get_encoding(ENCODING)


class TokenDecoder:
    """Token ids to text. The encoding is loaded when the first ids come, in a thread that nothing waits for longer
    than `patience` seconds; what failed is tried again with the next ids."""

    def __init__(self, load: Callable[[], Any] = load_encoding, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._encoding: ComputedOnce[Any] = ComputedOnce(lambda _: load(), "nearer-token-ids")

    async def decode(self, lists: Sequence[Sequence[int]], limits: Limits) -> list[str]:
        count = sum(map(len, lists))
        if count > limits.tokens:
            raise invalid("input", f"{count:,} token ids; at most {limits.tokens:,} are taken.", "too_many_tokens")
        encoding = await self._load()
        return [_decode(encoding, ids, number) for number, ids in enumerate(lists)]

    async def _load(self) -> Any:
        asked = asyncio.wrap_future(self._encoding.ask())
        try:
            return await asyncio.wait_for(asked, self._patience)
        except ImportError:
            raise _unreadable("the package tiktoken where the service runs (pip install tiktoken)") from None
        except TimeoutError:
            reason = f"did not come within {self._patience:g} seconds"
        except Exception as error:  # the network's, the file system's, and that of a file with another content
            reason = f"could not be had ({type(error).__name__})"
        raise _unreadable(
            f"tiktoken's file of {ENCODING}, which {reason}; $TIKTOKEN_CACHE_DIR may name a folder that has it"
        )


def _decode(encoding: Any, ids: Sequence[int], number: int) -> str:
    try:
        text: str = encoding.decode(ids)  # long texts are cut anywhere: half a character becomes a replacement sign
    except (KeyError, OverflowError):
        raise invalid("input", f"item {number} has a token id that {ENCODING} does not have. {MEND}") from None
    return text


def _unreadable(needed: str) -> Refusal:
    return invalid("input", f"token ids need {needed}. {MEND}", "token_ids")
