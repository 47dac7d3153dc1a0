"""Spans of a document's tokens: anchors that stand apart, and positives beside, over or within each (DeCLUTR)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
# Lengths are drawn from beta distributions: anchors are mostly long, positives mostly short
ANCHOR_LENGTHS, POSITIVE_LENGTHS = (4.0, 2.0), (2.0, 4.0)


@dataclass(frozen=True)
class SpanSampler:
    """Draws `anchors` spans of a document and `positives` for each, of `shortest` to `longest` tokens.

    In a document of fewer than 2 · anchors · longest tokens spans are as much shorter as it takes for anchors to stand
    apart.
    """

    anchors: int
    positives: int
    shortest: int
    longest: int

    def __call__(self, tokens: Ids, random: np.random.Generator) -> tuple[list[Ids], list[Ids]]:
        """The anchors, and the positives of the first, of the second and so on."""
        longest = max(1, min(self.longest, len(tokens) // (2 * self.anchors)))
        shortest = min(self.shortest, longest)
        anchors, positives = [], []
        for block in self._blocks(len(tokens) // longest, random):
            length = _length(ANCHOR_LENGTHS, shortest, longest, random)
            start = block * longest + int(random.integers(0, longest - length + 1))
            anchors.append(tokens[start : start + length])
            for _ in range(self.positives):
                size = _length(POSITIVE_LENGTHS, shortest, longest, random)
                # from the span that ends where the anchor begins to the one that begins where it ends
                first, last = max(0, start - size), min(len(tokens) - size, start + length)
                begin = int(random.integers(first, max(first, last) + 1))
                positives.append(tokens[begin : begin + size])
        return anchors, positives

    def _blocks(self, count: int, random: np.random.Generator) -> list[int]:
        """Of `count` blocks of a document one for each anchor, no two side by side as long as that can be had."""
        free, left, chosen = set(range(count)), set(range(count)), list[int]()
        for _ in range(self.anchors):
            block = int(random.choice(sorted(free or left or {0})))
            chosen.append(block)
            free -= {block - 1, block, block + 1}
            left -= {block}
        return chosen


def _length(shape: tuple[float, float], shortest: int, longest: int, random: np.random.Generator) -> int:
    return int(random.beta(*shape) * (longest - shortest) + shortest)
