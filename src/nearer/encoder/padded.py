"""Sentences below each other, filled up to one width with padding: what every model can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from nearer.encoder.encoder import Encoder


# Views pass apart where one rectangle for all would be so many times as large
WASTE = 1.1


class PaddedLayout:
    """Rows of tokens as a rectangle whose width is a multiple of `multiple`, so that few widths occur."""

    def __init__(self, encoder: Encoder, *, longest: int, multiple: int = 1) -> None:
        self.padding = encoder.padding_id
        self.trailing = encoder.trailing_padding
        self.widest = longest + self.trailing
        self.multiple = multiple

    def arrays(self, rows: Sequence[NDArray[np.int64]]) -> dict[str, NDArray[Any]]:
        """Host arrays: ids and mask (rows, width)."""
        mask = self._marked(rows)
        ids = np.full(mask.shape, self.padding, dtype=np.int64)
        ids[mask] = np.concatenate(rows)
        return {"ids": ids, "mask": mask.astype(np.int64)}

    def vectors(self, encoder: Encoder, tensors: dict[str, Tensor], rows: int) -> Tensor:
        """Vectors (rows, dimension) of the padded sentences."""
        vectors: Tensor = encoder(tensors["ids"], tensors["mask"])
        return vectors

    def states(self, encoder: Encoder, tensors: dict[str, Tensor]) -> Tensor:
        """The last layer's states of all tokens, one after the other (rows · width, size)."""
        return encoder.states(tensors["ids"], tensors["mask"]).flatten(0, 1)

    def places(self, rows: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
        """Where the marked tokens stand in `states`."""
        mask = self._marked(rows)
        marked = np.zeros(mask.shape, dtype=np.bool_)
        marked[mask] = np.concatenate(rows)
        return np.flatnonzero(marked)

    def together(self, views: Sequence[Sequence[NDArray[np.int64]]]) -> bool:
        """Whether views pass in one rectangle: not where the shorter ones would be padding for the most part.

        Compiled steps keep to one rectangle: each new shape is compiled and captured for itself.
        """
        widths = [max(len(row) for row in rows) for rows in views]
        joined = max(widths) * sum(len(rows) for rows in views)
        apart = sum(width * len(rows) for width, rows in zip(widths, views, strict=True))
        return self.multiple > 1 or joined <= WASTE * apart

    def _marked(self, rows: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Which places of the rectangle hold a token."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        width = -(-(int(lengths.max()) + self.trailing) // self.multiple) * self.multiple
        # never wider than the longest sentence needs: the model may have no more positions
        width = max(min(width, self.widest), int(lengths.max()) + self.trailing)
        marked: NDArray[np.bool_] = np.arange(width) < lengths[:, None]
        return marked
