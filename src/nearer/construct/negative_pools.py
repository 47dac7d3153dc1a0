"""Pools of negative candidates: sentences whose cosine with the anchor is in a range (DebCSE, §4.1), a sample of each.

An anchor looks at the corpus in an order of its own and stops when its pool is full, or after `scan` sentences. So what
an anchor costs does not grow with the corpus.

Its pool is an unbiased sample: the order is a permutation of the corpus, drawn uniformly by the seed, with its indices
re-arranged in a way that follows from the anchor's number alone (where it begins, see `_window` and `first_in_order`).
Such an order is as uniform as the permutation, so the first k sentences in it that lie in the range are a uniformly
drawn k-subset of all that lie in the range. Different anchors begin at different indices, which spreads the use of
sentences over the corpus.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from nearer.errors import SettingError
from nearer.units import LARGEST_SEED

Numbers = NDArray[np.int64]
# Anchors that look at the same part of the corpus, and sentences looked at by one matrix product. Pools depend on both:
# a change makes other (equally good) pools of the same seed.
GROUP, WIDTH = 256, 2048


@dataclass(frozen=True)
class PoolSettings:
    """low, high: the range of cosines, bounds included. size: sentences in a pool at most. scan: sentences that an
    anchor looks at, 0 for the whole corpus. spare: how many below the range are found for a pool with fewer than so
    many members.
    """

    low: float = 0.25
    high: float = 0.75
    size: int = 64
    scan: int = 20_000
    spare: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if not -1 <= self.low < self.high <= 1:
            raise SettingError(f"range: {self.low:g},{self.high:g} is not two cosines, the lower one first.")
        if self.size < 1 or self.scan < 0 or self.spare < 0:
            raise SettingError("pool size must be 1 or more; scan and spare 0 or more.")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise SettingError(f"seed: {self.seed} is not from 0 to {LARGEST_SEED}.")


@dataclass(frozen=True)
class Pools:
    """Of some anchors. members, cosines: (anchors, size), in the order of looking, −1 behind a short pool's end.

    spare, spare_cosines: (anchors, spare) sentences below the range, −1 where there are none or none are needed.
    seen: the lowest and highest cosine that anchors with an empty pool met (of all anchors that were computed together
    with these), None if no pool is empty.
    """

    members: Numbers
    cosines: NDArray[np.float32]
    spare: Numbers
    spare_cosines: NDArray[np.float32]
    seen: tuple[float, float] | None

    @property
    def counts(self) -> Numbers:
        """How many members each pool has."""
        found: Numbers = (self.members >= 0).sum(axis=1)
        return found

    def at(self, anchors: Numbers) -> Pools:
        return Pools(
            self.members[anchors], self.cosines[anchors], self.spare[anchors], self.spare_cosines[anchors], self.seen
        )


class NegativePools:
    """The pools of a corpus of different sentences. Anchors and members are their numbers.

    vectors: of length 1, any number of rows; rows: which of them is each sentence's. Only rows that are looked at are
    read, so vectors may be a mapped file.
    """

    def __init__(
        self, vectors: NDArray[np.float16], rows: Numbers, settings: PoolSettings, device: torch.device
    ) -> None:
        self.settings = settings
        self.device = device
        self._vectors, self._rows = vectors, rows
        self._order = np.random.default_rng([settings.seed, 0]).permutation(len(rows))
        self._last: tuple[int, Pools] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, numbers: Numbers) -> Pools:
        """The pools of these anchors. They do not depend on which others are asked for."""
        groups = numbers // GROUP
        parts = [
            self._group(int(group)).at(numbers[groups == group] - int(group) * GROUP) for group in np.unique(groups)
        ]
        found = _joined(parts)
        return found.at(np.argsort(np.argsort(groups, kind="stable"), kind="stable"))

    def probe(self, anchors: Numbers) -> Pools:
        """Pools of at most `GROUP` anchors from anywhere, to see whether there is anything in the range."""
        return self._find(anchors[:GROUP], 0)

    def _group(self, group: int) -> Pools:
        """All anchors of the group, whoever is asked for: equal shapes give equal roundings."""
        if self._last is None or self._last[0] != group:
            numbers = np.arange(group * GROUP, min((group + 1) * GROUP, len(self)))
            self._last = group, self._find(numbers, group * GROUP)
        return self._last[1]

    @torch.inference_mode()
    def _find(self, numbers: Numbers, start: int) -> Pools:
        settings, many = self.settings, len(numbers)
        own = torch.from_numpy(numbers).to(self.device)
        anchors = self._unit(numbers)
        pool = _Shelf(many, settings.size, self.device)
        spare = _Shelf(many, settings.spare, self.device)
        turns = torch.arange(many, device=self.device, dtype=torch.float64) / GROUP
        open_rows = torch.arange(many, device=self.device)
        lowest, highest = float("inf"), float("-inf")
        limit = min(settings.scan or len(self), len(self))
        for begin in range(0, limit, WIDTH):
            window = self._window(start + begin, min(WIDTH, limit - begin))
            columns = torch.from_numpy(window).to(self.device)
            cosines = anchors[open_rows] @ self._unit(window).T  # (open anchors, window)
            other = columns != own[open_rows, None]
            turned = (turns[open_rows] * len(window)).long()
            inside = other & (cosines >= settings.low) & (cosines <= settings.high)
            pool.put(open_rows, inside, turned, columns, cosines)
            short = torch.nonzero(pool.filled[open_rows] < settings.spare).squeeze(1)
            if len(short):
                below = other[short] & (cosines[short] < settings.low)
                spare.put(open_rows[short], below, turned[short], columns, cosines[short])
                empty = short[pool.filled[open_rows[short]] == 0]
                met = cosines[empty][other[empty]]
                if len(met):
                    lowest, highest = min(lowest, float(met.min())), max(highest, float(met.max()))
            open_rows = open_rows[pool.filled[open_rows] < settings.size]
            if not len(open_rows):
                break
        nothing = bool((pool.filled == 0).any()) and lowest <= highest
        return Pools(*pool.arrays(), *spare.arrays(), (lowest, highest) if nothing else None)

    def _window(self, start: int, width: int) -> Numbers:
        """Sentences at these indices of the permutation, which goes round."""
        return self._order[np.arange(start, start + width) % len(self)]

    def _unit(self, numbers: Numbers) -> Tensor:
        """Vectors in float32; kept in float16, their length is 1 but for the rounding."""
        rows = torch.from_numpy(self._vectors[self._rows[numbers]]).to(self.device)
        return normalize(rows.float(), dim=-1)


class _Shelf:
    """Columns for so many sentences an anchor, filled from the left."""

    def __init__(self, anchors: int, size: int, device: torch.device) -> None:
        self.size = size
        self.filled = torch.zeros(anchors, dtype=torch.long, device=device)
        self.members = torch.full((anchors, size), -1, dtype=torch.long, device=device)
        self.cosines = torch.zeros((anchors, size), device=device)

    def put(self, anchors: Tensor, wanted: Tensor, turned: Tensor, columns: Tensor, cosines: Tensor) -> None:
        """The wanted sentences (anchors, columns) in the order of looking, as far as there is room."""
        ranks = first_in_order(wanted, turned)
        before = self.filled[anchors]
        row, column = torch.nonzero(wanted & (ranks <= (self.size - before)[:, None]), as_tuple=True)
        to_column = before[row] + ranks[row, column] - 1
        self.members[anchors[row], to_column] = columns[column]
        self.cosines[anchors[row], to_column] = cosines[row, column]
        self.filled[anchors] = (before + wanted.sum(dim=1)).clamp(max=self.size)

    def arrays(self) -> tuple[Numbers, NDArray[np.float32]]:
        return self.members.cpu().numpy(), self.cosines.cpu().numpy()


def first_in_order(wanted: Tensor, turned: Tensor) -> Tensor:
    """Which one of the wanted each is (from 1), when each row begins at its own column `turned` and goes round."""
    counted = wanted.cumsum(dim=1)  # (anchors, columns)
    total = counted[:, -1:]
    before = torch.where(turned > 0, counted.gather(1, (turned - 1).clamp(min=0)[:, None])[:, 0], 0)[:, None]
    late = torch.arange(wanted.shape[1], device=wanted.device) >= turned[:, None]
    return torch.where(late, counted - before, counted + total - before)


def _joined(parts: list[Pools]) -> Pools:
    seen = [part.seen for part in parts if part.seen is not None]
    return Pools(
        np.concatenate([part.members for part in parts]),
        np.concatenate([part.cosines for part in parts]),
        np.concatenate([part.spare for part in parts]),
        np.concatenate([part.spare_cosines for part in parts]),
        (min(low for low, _ in seen), max(high for _, high in seen)) if seen else None,
    )
