"""Sentences to token ids: normalised, tokenised on all cores, and how long texts are, so that few of them are cut."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer.errors import ModelError, SettingError, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# This many texts are enough to estimate the percentile
SAMPLE = 10_000
WHOLE = 95  # per cent of the texts are not cut
MULTIPLE = 8
SHORTEST = 32
END_MARKS = ".!?。！？…"


def _full_stop(sentence: str) -> str:
    """Ends the sentence with a full stop, as some published methods do: worth points on untuned models."""
    stripped = sentence.rstrip()
    return stripped if stripped.endswith(tuple(END_MARKS)) else stripped + "."


NORMALISATIONS: dict[str, Callable[[str], str]] = {
    "none": lambda sentence: sentence,
    "lowercase": str.lower,
    "full_stop": _full_stop,
}


def normalisation(name: str) -> Callable[[str], str]:
    if name not in NORMALISATIONS:
        raise SettingError(f"text_normalisation: {name!r} is not one of {', '.join(NORMALISATIONS)}.")
    return NORMALISATIONS[name]


def tokenise(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], max_length: int) -> list[list[int]]:
    """Token ids with the special tokens, cut at `max_length`, without padding."""
    return tokenise_counting(tokenizer, sentences, max_length)[0]


def tokenise_counting(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], max_length: int
) -> tuple[list[list[int]], int]:
    """Token ids as `tokenise` has them, and how many of the sentences were cut."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # a tokenizer written in Python
        encoded = tokenizer(
            list(sentences), truncation=True, max_length=max_length, padding=False, return_attention_mask=False
        )
        rows = [list(ids) for ids in encoded["input_ids"]]
        full = [sentence for sentence, row in zip(sentences, rows, strict=True) if len(row) == max_length]
        return rows, sum(length > max_length for length in token_counts(tokenizer, full))
    # A third faster than the tokenizer's own call, which also builds masks, types and offsets.
    backend.no_padding()
    backend.enable_truncation(max_length, direction=tokenizer.truncation_side)
    rows, cut = [], 0
    try:
        encodings = backend.encode_batch_fast(list(sentences))
    except Exception as error:  # tokenizers raises plain exceptions: a vocabulary without a token for the unknown
        raise ModelError(f"the tokenizer cannot read a text ({first_line(error)}); get its files again.") from None
    for encoding in encodings:
        rows.append(encoding.ids)
        cut += len(rows[-1]) == max_length and bool(encoding.overflowing)
    return rows, cut


def token_counts(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> list[int]:
    """How many tokens each sentence has uncut, special ones included."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not sentences:
        return []
    if backend is None:
        encoded = tokenizer(
            list(sentences), truncation=False, padding=False, return_attention_mask=False, verbose=False
        )
        return [len(ids) for ids in encoded["input_ids"]]
    backend.no_padding()
    backend.no_truncation()
    return [len(encoding.ids) for encoding in backend.encode_batch_fast(list(sentences))]


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


def length_for(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, *, longest: int) -> int:
    """The tokens that hold 95 % of the first texts whole: a multiple of 8, at least 32 and at most `longest`."""
    counts = token_counts(tokenizer, list(itertools.islice(texts, SAMPLE)))
    if not counts:
        return min(SHORTEST, longest)
    wanted = int(np.percentile(counts, WHOLE, method="higher"))
    return min(max(SHORTEST, -(-wanted // MULTIPLE) * MULTIPLE), longest)
