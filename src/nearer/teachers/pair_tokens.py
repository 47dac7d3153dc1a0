"""Pairs of texts as token rows: each text is tokenised once, and rows are put together from both texts' tokens.

A cross-encoder reads `[CLS] query [SEP] passage [SEP]`, or what its tokenizer has in place of that. A pair that is too
long loses the end of its passage, as with the tokenizer's own `truncation="only_second"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.batching import Tokenised, ranges
from nearer.errors import ModelError, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Numbers = NDArray[np.int64]
PROBES = ("to", "be", "a man is eating", "naïve café: 3.5 %")
TOKENISED_AT_ONCE = 2048


class PairTemplate(NamedTuple):
    """What stands around the tokens of two texts, and the token type of each of the five parts."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]

    @property
    def special(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


def find_template(tokenizer: PreTrainedTokenizerBase, name: str) -> PairTemplate:
    """The template by which the tokenizer joins two texts; name: of the model, for the error."""
    first, second, other, last = (list(ids) for ids in tokenise_bare(tokenizer, PROBES, 64))
    template = _match(tokenizer, first, second)
    joined = None if template is None else [*template.before, *other, *template.between, *last, *template.after]
    if template is None or joined != list(tokenizer(PROBES[2], PROBES[3])["input_ids"]):
        raise ModelError(f"{name}: its tokenizer does not join two texts by a fixed pattern; it cannot score pairs.")
    return template


def _match(tokenizer: PreTrainedTokenizerBase, first: list[int], second: list[int]) -> PairTemplate | None:
    found = tokenizer(PROBES[0], PROBES[1], return_token_type_ids=True)
    ids, types = list(found["input_ids"]), list(found["token_type_ids"])
    for start in range(len(ids) - len(first) + 1):
        end = start + len(first)
        for again in range(end, len(ids) - len(second) + 1):
            last = again + len(second)
            if ids[start:end] == first and ids[again:last] == second:
                parts = (types[:start], types[start:end], types[end:again], types[again:last], types[last:])
                kinds = tuple(part[0] if part else 0 for part in parts)
                return PairTemplate(tuple(ids[:start]), tuple(ids[end:again]), tuple(ids[last:]), kinds)  # type: ignore[arg-type]
    return None


def tokenise_bare(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> list[Sequence[int]]:
    """Token ids without special tokens; of a longer text `max_length` are kept."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # a tokenizer written in Python
        options: dict[str, Any] = {"truncation": True, "max_length": max_length, "return_attention_mask": False}
        return list(tokenizer(list(texts), add_special_tokens=False, padding=False, **options)["input_ids"])
    backend.no_padding()
    backend.enable_truncation(max_length, direction=tokenizer.truncation_side)
    rows: list[Sequence[int]] = []
    try:
        for start in range(0, len(texts), TOKENISED_AT_ONCE):
            part = list(texts[start : start + TOKENISED_AT_ONCE])
            rows += [encoding.ids for encoding in backend.encode_batch_fast(part, add_special_tokens=False)]
    except Exception as error:  # tokenizers raises plain exceptions
        raise ModelError(f"the tokenizer cannot read a text ({first_line(error)}); get its files again.") from None
    finally:
        backend.no_truncation()
    return rows


def tokenise_many(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> Tokenised:
    """As `tokenise_bare`, in arrays, a part after the other: as Python's numbers, tokens take ten times the memory."""
    starts = range(0, max(1, len(texts)), TOKENISED_AT_ONCE)
    parts = (tokenise_bare(tokenizer, texts[start : start + TOKENISED_AT_ONCE], max_length) for start in starts)
    return Tokenised.joined([Tokenised.of(part) for part in parts])


class _Side(NamedTuple):
    """One text of each pair: where its tokens begin among all, and how many of them the row has."""

    ids: NDArray[np.int32]
    starts: Numbers
    kept: Numbers


@dataclass(frozen=True)
class PairRows:
    """Pairs as rows of tokens that can be put together in any order. cut: which pairs have lost tokens."""

    template: PairTemplate
    first: _Side
    second: _Side
    cut: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        template: PairTemplate,
        first: Tokenised,
        second: Tokenised,
        pairs: Numbers,
        *,
        max_length: int,
        left: bool = False,
    ) -> PairRows:
        """pairs (n, 2): which text of `first` and of `second` a row has. left: a text loses its beginning.

        A query that fills a row by itself keeps half of it, and its passage has the other half.
        """
        room = max_length - template.special
        lengths, others = first.lengths[pairs[:, 0]], second.lengths[pairs[:, 1]]
        kept = np.where(lengths >= room, np.minimum(lengths, room // 2), lengths)
        others_kept = np.minimum(others, room - kept)
        starts, others_start = first.starts[pairs[:, 0]], second.starts[pairs[:, 1]]
        if left:
            starts, others_start = starts + lengths - kept, others_start + others - others_kept
        cut = (kept < lengths) | (others_kept < others)
        return cls(template, _Side(first.ids, starts, kept), _Side(second.ids, others_start, others_kept), cut)

    @property
    def lengths(self) -> Numbers:
        return self.template.special + self.first.kept + self.second.kept

    def fill(self, rows: Numbers, width: int, padding: int) -> tuple[NDArray[np.int32], ...]:
        """Ids, mask and token types (rows, width) of these rows."""
        ids = np.full((len(rows), width), padding, dtype=np.int32)
        kinds = np.zeros_like(ids)
        columns = np.arange(width)
        end = np.zeros(len(rows), dtype=np.int64)
        before, between, after, types = self.template
        for part, kind in zip((before, self.first, between, self.second, after), types, strict=True):
            if isinstance(part, _Side):
                count = part.kept[rows]
                values = part.ids[ranges(part.starts[rows], count)]
            else:
                count = np.full(len(rows), len(part), dtype=np.int64)
                values = np.tile(np.array(part, dtype=np.int32), len(rows))
            start, end = end, end + count
            marked = (columns >= start[:, None]) & (columns < end[:, None])
            ids[marked], kinds[marked] = values, kind
        return ids, (columns < end[:, None]).astype(np.int32), kinds
