"""From the token store to the batches that a method gets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nearer.distributed import rank, shares
from nearer.encoder import Encoder
from nearer.encoder.encoding import pad
from nearer.methods.contract import Batch, Ids
from nearer.text.batches import BatchPlan
from nearer.text.token_store import TokenStore
from nearer.training.settings import TrainingSettings

# Kinds of random draws, so that none shares its numbers with another
DROPOUT, AUGMENTATION = 1, 2


def captures(settings: TrainingSettings, device: torch.device) -> bool:
    return settings.capture and device.type == "cuda"


class Feed:
    """Batches by number. Nothing here has a state: batch `step` is the same whenever it is asked for."""

    def __init__(self, store: TokenStore, encoder: Encoder, settings: TrainingSettings) -> None:
        self.store = store
        self.seed = settings.seed
        lengths = store.lengths.reshape(len(store), store.fields).max(axis=1)
        self.plan = BatchPlan(
            lengths,
            settings.batch_size,
            settings.seed,
            keep_partial=settings.keep_partial,
            group_by_length=settings.group_by_length,
        )
        self.device = encoder.device
        self.padding = encoder.padding_id
        self.trailing = encoder.trailing_padding
        # a captured step wants one shape
        self.width = settings.max_length + self.trailing if captures(settings, self.device) else 0

    def batch(self, step: int) -> Batch:
        records = self.plan.batch(step)
        counts = shares(len(records))
        start = sum(counts[: rank()])
        own = records[start : start + counts[rank()]]
        fields = [[self._tokens(record, field) for record in own] for field in range(self.store.fields)]
        return Batch(fields, records, counts, np.random.default_rng(self._draw(AUGMENTATION, step)), self._pad)

    def seed_dropout(self, step: int) -> None:
        """Dropout follows from seed, process and step alone, so that a resumed run draws the same masks."""
        torch.manual_seed(int(np.random.SeedSequence(self._draw(DROPOUT, step)).generate_state(1, np.uint64)[0] >> 1))

    def whole(self, step: int) -> bool:
        """Whether the batch has the usual size, for which the step is captured."""
        return len(self.plan.batch(step)) == self.plan.batch_size

    def _draw(self, kind: int, step: int) -> list[int]:
        return [self.seed, kind, rank(), step]

    def _tokens(self, record: int, field: int) -> Ids:
        return self.store[int(record) * self.store.fields + field].astype(np.int64)

    def _pad(self, rows: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        trailing = self.trailing
        if self.width:
            trailing = self.width - max(len(row) for row in rows)
        return pad(rows, self.padding, self.device, trailing)
