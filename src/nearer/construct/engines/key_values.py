"""Keys and values of contexts of unequal length that are decoded together, and the attention over them.

All rows write their next token at the same column, so a step is one copy a layer. A row's context ends in front of that
column and begins where its length says; positions are in the keys already, so it does not matter in which columns they
stand:

    row 0    . . . . i i i s s s t t t t |        i: instruction, s: sentence, t: generated, |: the column
    row 1    . . i i i s s s s s s s t t |        .: left over from earlier rows, not seen
    row 2    . . . . . . . i i i s s s s |        (just put)

When the column reaches the end of the buffer, what is in use moves to its beginning.

In attention, the queries that share a key head stand beside each other, so keys are never repeated. transformers
repeats keys and values for each query head when there is a mask, which at one new token for each row is most of the
memory traffic of attention (seven-fold for Qwen2.5-0.5B).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache

ALIGNED = 8  # columns in view are a multiple of it, which the GPU's attention wants of a mask
SPAN = 256  # columns: views of fixed shape begin and end at multiples of it
SMALLEST_PART = 8  # of the rows: fixed shapes have all of them, a half, a quarter or an eighth
Ids = npt.NDArray[np.int64]


class LayerShape(NamedTuple):
    heads: int
    key_width: int
    value_width: int


class StepShape(NamedTuple):
    """So many rows, with the columns from `first` to before `stop` in view."""

    rows: int
    first: int
    stop: int


class Rows(DynamicCache):
    """The running contexts, as transformers' models take them. Rows in use are always the first `count`."""

    def __init__(self, shapes: Sequence[LayerShape], dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self._dtype, self._device = dtype, device
        # each (rows, columns, heads, width)
        self._keys = [torch.zeros(0, 0, s.heads, s.key_width, dtype=dtype, device=device) for s in shapes]
        self._values = [torch.zeros(0, 0, s.heads, s.value_width, dtype=dtype, device=device) for s in shapes]
        self._begins = np.zeros(0, dtype=np.int64)  # the first column of each row's context
        self.count = 0
        self.column = 0  # where the next token of all rows goes
        self.before_new_buffers: Callable[[], None] = lambda: None  # is called before keys and values move
        self._begins_changed()

    def put(self, rows: Sequence[int], contexts: Sequence[Ids], source: tuple[list[Tensor], list[Tensor]]) -> None:
        """Put contexts into rows. contexts: for each, the indices of its tokens in `source`, layers of (tokens, …)."""
        if not rows:
            return
        lengths = np.array([len(context) for context in contexts])
        self._make_room(max(self.count, *(row + 1 for row in rows)), int(lengths.max()))
        self._begins[list(rows)] = self.column - lengths
        self.count = max(self.count, max(rows) + 1)
        self._begins_changed()
        to_rows = np.repeat(np.array(rows), lengths)
        to_columns = np.concatenate([np.arange(self.column - length, self.column) for length in lengths])
        where = torch.from_numpy(np.stack([np.concatenate(contexts), to_rows, to_columns])).to(self._device)
        for own, other in zip([*self._keys, *self._values], [*source[0], *source[1]], strict=True):
            own[where[1], where[2]] = other[where[0]]

    def clear(self) -> None:
        """Drop all rows. Their memory stays, and what was recorded in it."""
        self.count = self.column = 0
        self._begins[:] = 0
        self._begins_changed()

    def drop(self, rows: Sequence[int]) -> dict[int, int]:
        """Free rows; the last ones move into the gaps. Returns the moves: from which row to which."""
        gone = set(rows)
        left = self.count - len(gone)
        gaps = [row for row in sorted(gone) if row < left]
        moved = [row for row in range(left, self.count) if row not in gone]
        if gaps:
            first, there = self._first(), torch.tensor([gaps, moved], device=self._device)
            for own in (*self._keys, *self._values):
                own[there[0], first : self.column] = own[there[1], first : self.column]
            self._begins[gaps] = self._begins[moved]
        self.count = left
        self._begins_changed()
        return dict(zip(moved, gaps, strict=True))

    def positions(self, window: int) -> Tensor:
        """(rows, 1). Rows that have ended but still run may be past the window, whose last position they get."""
        return (self.column - self._begins_there[: self.count, None]).clamp(max=window - 1)

    def mask(self) -> Tensor:
        """(rows, 1, 1, columns in view), added to the scores of the new tokens."""
        columns = torch.arange(self._first(), self.column + 1, device=self._device)
        return additive(columns >= self._begins_there[: self.count, None], self._dtype)[:, None, None]

    def advance(self) -> None:
        """To be called after each step."""
        self.column += 1
        if self.column == self._columns:
            self._make_room(self.count, 0)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        keys, values = self._keys[layer_idx], self._values[layer_idx]
        keys[: self.count, self.column] = key_states[:, :, 0]
        values[: self.count, self.column] = value_states[:, :, 0]
        seen = slice(self._first(), self.column + 1)
        return keys[: self.count, seen].transpose(1, 2), values[: self.count, seen].transpose(1, 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.column - self._first()

    def get_mask_sizes(self, query_length: Any, layer_idx: int = 0) -> tuple[int, int]:
        return self.get_seq_length() + 1, 0

    @property
    def allocated(self) -> int:
        """Rows that there is room for."""
        return len(self._begins)

    def step_shape(self) -> StepShape:
        """Of the next step, of which the same few come again and again: wide enough for all that is in use."""
        rows = self.allocated
        while rows % 2 == 0 and rows // 2 >= max(self.count, self.allocated // SMALLEST_PART):
            rows //= 2
        first, stop = self._first() // SPAN * SPAN, -(-(self.column + 1) // SPAN) * SPAN
        return StepShape(rows, first, min(stop, self._columns))

    def fixed(self, shape: StepShape) -> FixedRows:
        """Over the same keys and values, until `before_new_buffers` is called."""
        return FixedRows(
            [keys[: shape.rows] for keys in self._keys], [each[: shape.rows] for each in self._values], shape
        )

    def set_inputs(self, fixed: FixedRows) -> None:
        """Set where the next step writes, and what each row sees."""
        fixed.begins.copy_(self._begins_there[: len(fixed.begins)])
        fixed.column.fill_(self.column)

    @property
    def _columns(self) -> int:
        return self._keys[0].shape[1]

    def _first(self) -> int:
        """The first column in view."""
        return max(0, self._oldest - (self._oldest - self.column - 1) % ALIGNED)

    def _begins_changed(self) -> None:
        self._begins_there = torch.from_numpy(self._begins).to(self._device)
        self._oldest = int(self._begins[: self.count].min()) if self.count else self.column

    def _make_room(self, rows: int, before: int) -> None:
        """Room for `rows` rows, for `before` tokens in front of the column, and for at least one token behind."""
        if rows <= len(self._begins) and before + ALIGNED <= self.column < self._columns:
            return
        first, column = self._first(), self.column
        used = column - first
        to = -(-max(used, before + ALIGNED) // ALIGNED) * ALIGNED  # where the column moves
        rows, columns = max(rows, len(self._begins)), self._columns
        if columns < 2 * to:
            columns = 3 * to  # so that what is moved each time was written in at least as many steps
        new = (rows, columns) != self._keys[0].shape[:2]
        if new:
            self.before_new_buffers()
        for tensors in (self._keys, self._values):
            for layer, old in enumerate(tensors):
                kept = old[: self.count, first:column].clone()
                if new:
                    # zeros: what is not seen has no weight, but no weight times NaN would be NaN
                    tensors[layer] = old.new_zeros(rows, columns, *old.shape[2:])
                tensors[layer][: self.count, to - used : to] = kept
        self._begins = np.pad(self._begins + (to - column), (0, rows - len(self._begins)))
        self.column = to
        self._begins_changed()


class FixedRows(DynamicCache):
    """A step of `Rows` in which nothing that changes from step to step is a number of the host's.

    Rows that are not in use are computed with the others. They see at least their own token, so that they stay finite.
    """

    def __init__(self, keys: list[Tensor], values: list[Tensor], shape: StepShape) -> None:
        super().__init__()
        device = keys[0].device
        self._keys, self._values, self._shape = keys, values, shape
        self._in_view = torch.arange(shape.first, shape.stop, device=device)
        self.begins = torch.zeros(shape.rows, dtype=torch.long, device=device)
        self.column = torch.zeros(1, dtype=torch.long, device=device)

    def positions(self, window: int) -> Tensor:
        """(rows, 1)"""
        return (self.column - self.begins)[:, None].clamp(min=0, max=window - 1)

    def mask(self) -> Tensor:
        """(rows, 1, 1, columns in view), added to the scores of the new tokens."""
        before = (self._in_view >= self.begins[:, None]) & (self._in_view < self.column)
        return additive(before | (self._in_view == self.column), self._keys[0].dtype)[:, None, None]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        keys, values = self._keys[layer_idx], self._values[layer_idx]
        keys.index_copy_(1, self.column, key_states.transpose(1, 2))
        values.index_copy_(1, self.column, value_states.transpose(1, 2))
        seen = slice(self._shape.first, self._shape.stop)
        return keys[:, seen].transpose(1, 2), values[:, seen].transpose(1, 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._shape.stop - self._shape.first - 1

    def get_mask_sizes(self, query_length: Any, layer_idx: int = 0) -> tuple[int, int]:
        return self.get_seq_length() + 1, 0


ATTENTION = "nearer_grouped"


def grouped_attention(
    module: nn.Module,
    query: Tensor,  # (rows, heads, new, dim)
    key: Tensor,  # (rows, key heads, columns, dim)
    value: Tensor,
    attention_mask: Tensor | None,  # (rows or 1, 1, new, columns), added to the scores; None: causal
    scaling: float | None = None,
    **other: Any,
) -> tuple[Tensor, None]:
    """transformers' contract of an attention function."""
    for name in ("softcap", "s_aux", "position_bias"):
        if other.get(name) is not None:
            raise ValueError(f"{name} is not computed here")  # the model's own attention is used then
    rows, heads, new, _ = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(rows, key.shape[1], groups * new, query.shape[-1])
    if attention_mask is None and new > 1:
        attention_mask = causal_mask(new, key.shape[2] - new, query.dtype, query.device)
    if attention_mask is not None and new > 1:
        attention_mask = attention_mask.repeat(1, 1, groups, 1)
    mixed = scaled_dot_product_attention(folded, key, value, attn_mask=attention_mask, scale=scaling)
    return mixed.reshape(rows, heads, new, value.shape[-1]).transpose(1, 2).contiguous(), None


def causal_mask(new: int, before: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(1, 1, new, before + new): each new token sees all that was before, itself, and the new ones ahead of it."""
    seen = torch.ones(new, before + new, dtype=torch.bool, device=device).tril(before)
    return additive(seen, dtype)[None, None]


def additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where seen, −∞ where not: understood by all attention functions."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))


def register_attention() -> None:
    """Make it known to transformers by its name; masks that nobody has given are made as for its own."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ATTENTION, grouped_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
