"""Sentences below each other, filled up to one width with padding: what every model can take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.encoder.network import SentenceNetwork
from nearer.errors import InputError

# Views pass apart where one rectangle for all would be so many times as large
WASTE = 1.1
# A rectangle more has to save this share of all cells: each is a round of calls more
WORTH_IT = 0.05
FEWEST = 16  # rows of a rectangle


class PaddedLayout:
    """Rows of tokens as a rectangle whose width is a multiple of `multiple`, so that few widths occur.

    rectangles: with more than one, long rows and short ones stand apart where that saves padding. On a CPU, where
    padding costs what tokens cost, and nothing is gained by large batches. Tensors of the second have a 1 behind their
    name, and so on; `order` says which row of all of them each row is.
    """

    mixes = False

    def __init__(self, encoder: SentenceNetwork, *, longest: int, multiple: int = 1, rectangles: int = 1) -> None:
        self.padding = encoder.padding_id
        self.trailing = encoder.trailing_padding
        self.first_position = encoder.first_position
        self.longest = longest
        self.widest = longest + self.trailing
        self.multiple = multiple
        self.rectangles = rectangles

    def arrays(
        self,
        rows: Sequence[NDArray[np.int64]],
        *,
        pooled: Sequence[int] | None = None,
        positions: Sequence[NDArray[np.int64]] | None = None,
        kept_features: Sequence[NDArray[np.bool_]] | None = None,
        kept_tokens: Sequence[NDArray[np.bool_]] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Host arrays: ids and mask (rows, width) of each rectangle.

        pooled: of each row the index of the token that becomes its vector; positions: of each row those of its tokens;
        kept_features, kept_tokens: of each row what stays of its embedded tokens.
        """
        check_lengths(rows, self.longest)
        arrays: dict[str, NDArray[Any]] = {}
        parts = self._parts(rows)
        for number, part in enumerate(parts):
            chosen = [rows[row] for row in part]
            mask = self._marked(chosen)
            ids = np.full(mask.shape, self.padding, dtype=np.int64)
            ids[mask] = np.concatenate(chosen)
            arrays |= {_name("ids", number): ids, _name("mask", number): mask.astype(np.int64)}
            if pooled is not None:
                arrays[_name("pooled", number)] = np.array([pooled[row] for row in part], dtype=np.int64)
            if positions is not None:
                counted = np.zeros(mask.shape, dtype=np.int64)
                counted[mask] = np.concatenate([positions[row] for row in part])
                arrays[_name("positions", number)] = counted + self.first_position
            if kept_features is not None:
                arrays[_name("kept_features", number)] = np.stack([kept_features[row] for row in part])
            if kept_tokens is not None:
                kept = np.ones(mask.shape, dtype=bool)
                kept[mask] = np.concatenate([kept_tokens[row] for row in part])
                arrays[_name("kept_tokens", number)] = kept
        if len(parts) > 1:
            order = np.concatenate(parts)
            arrays |= {"order": np.argsort(order), "rows": order}
        return arrays

    def vectors(
        self, module: Callable[..., Tensor], tensors: dict[str, Tensor], rows: int, condition: Tensor | None = None
    ) -> Tensor:
        """Vectors (rows, dimension) of the padded sentences. condition: what the module gets beside each row."""
        found = [module(**given) for given in _rectangles(tensors, condition)]
        return found[0] if len(found) == 1 else torch.cat(found).index_select(0, tensors["order"])

    def states(self, module: Any, tensors: dict[str, Tensor], condition: Tensor | None = None) -> Tensor:
        """The last layer's states of all tokens, one rectangle after the other (rows · width, size)."""
        found = [module.states(**given).flatten(0, 1) for given in _rectangles(tensors, condition)]
        return found[0] if len(found) == 1 else torch.cat(found)

    def indices(self, rows: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
        """The indices of the marked tokens in `states` and in the ids, in the order of the rows."""
        parts = self._parts(rows)
        found: dict[int, NDArray[np.int64]] = {}
        start = 0
        for part in parts:
            width = self._marked([rows[row] for row in part]).shape[1]
            for number, row in enumerate(part):
                found[int(row)] = start + number * width + np.flatnonzero(rows[row])
            start += width * len(part)
        return np.concatenate([found[row] for row in range(len(rows))])

    def _parts(self, rows: Sequence[NDArray[Any]]) -> list[NDArray[np.int64]]:
        """Which rows stand together: one cut after the other, where it saves most."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        if self.rectangles == 1 or len(rows) < 2 * FEWEST:
            return [np.arange(len(rows))]
        order = np.argsort(-lengths, kind="stable")
        ordered, cuts = lengths[order], [0, len(rows)]
        whole = int(ordered[0]) * len(rows)
        while len(cuts) <= self.rectangles:
            # cutting before a row makes all rows from there to the next cut as wide as that row
            ends = np.array([next(cut for cut in cuts[1:] if cut > row) for row in range(len(rows))])
            starts = np.array([max(cut for cut in cuts[:-1] if cut <= row) for row in range(len(rows))])
            saved = (ordered[starts] - ordered) * (ends - np.arange(len(rows)))
            saved[(np.arange(len(rows)) - starts < FEWEST) | (ends - np.arange(len(rows)) < FEWEST)] = 0
            best = int(saved.argmax())
            if saved[best] < WORTH_IT * whole:
                break
            cuts = sorted([*cuts, best])
        if len(cuts) == 2:  # no cut is worth it: with a single rectangle nobody restores an order
            return [np.arange(len(rows))]
        return [order[first:last] for first, last in pairwise(cuts)]

    def together(self, views: Sequence[Sequence[NDArray[np.int64]]]) -> bool:
        """Whether views pass in one rectangle: not where the shorter ones would be padding for the most part.

        Compiled steps keep to one rectangle: each new shape is compiled and captured for itself.
        """
        widths = [max(len(row) for row in rows) for rows in views]
        joined = max(widths) * sum(len(rows) for rows in views)
        apart = sum(width * len(rows) for width, rows in zip(widths, views, strict=True))
        return self.multiple > 1 or joined <= WASTE * apart

    def _marked(self, rows: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Which cells of the rectangle hold a token."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        width = -(-(int(lengths.max()) + self.trailing) // self.multiple) * self.multiple
        # never wider than the longest sentence needs: the model may have no more positions
        width = max(min(width, self.widest), int(lengths.max()) + self.trailing)
        marked: NDArray[np.bool_] = np.arange(width) < lengths[:, None]
        return marked


def check_lengths(rows: Sequence[NDArray[np.int64]], longest: int) -> None:
    """A row that is longer than a layout's longest would be computed wrongly without a word."""
    length = max(map(len, rows), default=0)
    if length > longest:
        raise InputError(f"a row of {length} tokens: rows have {longest} at most here; cut it, or raise max_length.")


def _name(tensor: str, rectangle: int) -> str:
    return f"{tensor}{rectangle or ''}"


def _rectangles(tensors: dict[str, Tensor], condition: Tensor | None) -> Iterator[dict[str, Tensor]]:
    """What the module is called with for each, by its names."""
    number = start = 0
    while (ids := tensors.get(_name("ids", number))) is not None:
        given = {"ids": ids, "mask": tensors[_name("mask", number)]}
        for optional in ("pooled", "positions", "kept_features", "kept_tokens"):
            if (tensor := tensors.get(_name(optional, number))) is not None:
                given[optional] = tensor
        if condition is not None:
            rows = tensors.get("rows")
            own = condition if rows is None else condition.index_select(0, rows[start : start + len(ids)])
            given["condition"] = own
        yield given
        number, start = number + 1, start + len(ids)
