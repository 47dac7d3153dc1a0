"""Sentences to token ids, on all cores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def tokenise(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], max_length: int) -> list[list[int]]:
    """Token ids with the special tokens, cut at `max_length`, without padding."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # a tokenizer written in Python
        encoded = tokenizer(
            list(sentences), truncation=True, max_length=max_length, padding=False, return_attention_mask=False
        )
        return [list(ids) for ids in encoded["input_ids"]]
    # A third faster than the tokenizer's own call, which also builds masks, types and offsets.
    backend.no_padding()
    backend.enable_truncation(max_length, direction=tokenizer.truncation_side)
    return [encoding.ids for encoding in backend.encode_batch_fast(list(sentences))]


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """A digest of everything that decides which ids a sentence gets."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        described: Any = [type(tokenizer).__name__, sorted(tokenizer.get_vocab().items()), str(tokenizer.init_kwargs)]
    else:
        described = json.loads(backend.to_str())
        described["truncation"] = tokenizer.truncation_side  # the backend's own is set anew at every call
        described["padding"] = None
    return hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16).hexdigest()
