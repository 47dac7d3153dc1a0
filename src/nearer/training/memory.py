"""How much memory a run will take, told before it starts rather than by its death in the middle.

What a pass keeps for its way back is measured on a few sentences and grows with the tokens; the rest is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nearer.errors import SettingError
from nearer.training.prepared import Portion, Prepared
from nearer.training.trainer import Trainer

SAMPLE = 4  # sentences
# Room for what lives only for a moment, and for memory that is free but in pieces
MARGIN = 1.15
ENOUGH_SAID = 0.5  # of what is free: below, only a GPU's owner wants to know


@dataclass(frozen=True)
class Estimate:
    """In bytes: what stays for the whole run, what each token adds that passes at once, and what is free."""

    fixed: int
    token: float
    tokens: int
    longest: int
    free: int | None
    device: str

    @property
    def total(self) -> int:
        return int((self.fixed + self.token * self.tokens) * MARGIN)

    @property
    def fits(self) -> bool:
        return self.free is None or self.total <= self.free

    def sentences_that_fit(self) -> int:
        """Sentences of the longest kind that could pass at once; a power of two, 0 if not even one can."""
        room = (self.free or 0) / MARGIN - self.fixed
        count = int(room / (self.token * self.longest)) if self.token else 0
        return 2 ** (count.bit_length() - 1) if count > 0 else 0

    def __str__(self) -> str:
        free = "" if self.free is None else f" of the {_gigabytes(self.free)} that are free on {self.device}"
        return f"memory: about {_gigabytes(self.total)}{free}"


def check_memory(trainer: Trainer) -> list[str]:
    """A remark on how much memory will be used; an error with advice if there is not so much."""
    estimate = estimate_memory(trainer)
    if not estimate.fits:
        raise SettingError(_advice(estimate, trainer))
    worth_saying = estimate.free is not None and estimate.total > ENOUGH_SAID * estimate.free
    return [str(estimate)] if trainer.device.type == "cuda" or worth_saying else []


def estimate_memory(trainer: Trainer) -> Estimate:
    batch = trainer.prepared(0)[0]
    plan = batch.plan
    # those of frozen modules keep nothing for a way back, but pass all the same
    trained = [
        portion for group in plan.groups if not trainer.working.is_frozen(group.module) for portion in group.portions
    ]
    at_once = max((batch_tokens(batch, [each]) for each in trained), default=0)
    if not plan.in_pieces:
        at_once = batch_tokens(batch, trained)
    return Estimate(
        fixed=_fixed(trainer) + _similarities(trainer, batch) + _vocabulary(trainer, batch),
        token=_kept_for_each_token(trainer),
        tokens=at_once,
        longest=trainer.settings.longest,
        free=free_memory(trainer.device),
        device=str(trainer.device),
    )


def batch_tokens(batch: Prepared, portions: Sequence[Portion]) -> int:
    """Tokens, padding included, in these portions of a batch."""
    of_these = tuple(f"{each.name}/ids" for each in portions)  # and ids1, where rows stand in several rectangles
    return sum(tensor.numel() for name, tensor in batch.tensors.items() if name.startswith(of_these))


def free_memory(device: torch.device) -> int | None:
    """What a device has left, in bytes; None where nobody tells."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
        return min(available, _left_in_container() or available)
    except (OSError, StopIteration, ValueError):
        return None


def _left_in_container() -> int | None:
    root = Path("/sys/fs/cgroup")
    try:
        return int((root / "memory.max").read_text()) - int((root / "memory.current").read_text())
    except (OSError, ValueError):  # no such limit
        return None


def _fixed(trainer: Trainer) -> int:
    """Gradients, two moments, and the best weights; the weights themselves are there already."""
    trained = sum(weight.numel() for weight in trainer.parameters)
    copied = sum(copied.master.numel() for copied in trainer.working.copies)
    gradients = 4 * (trained - copied) + 2 * copied
    best = 4 * sum(weight.numel() for weight in trainer.encoder.parameters())
    return gradients + 8 * trained + best


def _similarities(trainer: Trainer, batch: Prepared) -> int:
    """The matrix of all pairs of a batch, its softmax and its gradient. A pass may have several rows a record."""
    views = max(1, trainer.feed.store.fields - 1)
    rows = max(rows for group in batch.plan.groups for _, rows in group.passes) // batch.records
    return 3 * 4 * max(views, rows) * trainer.settings.batch_size**2


def _vocabulary(trainer: Trainer, batch: Prepared) -> int:
    """Scores over the vocabulary for each chosen token, in both precisions, and their gradients."""
    chosen = sum(tensor.numel() for name, tensor in batch.tensors.items() if name.endswith("/chosen"))
    return 12 * chosen * len(trainer.encoder.tokenizer)


def _kept_for_each_token(trainer: Trainer) -> float:
    encoder, layout = trainer.working.encoder, trainer.layouts.usual
    row = np.full(trainer.settings.longest, trainer.encoder.padding_id, dtype=np.int64)
    arrays = layout.arrays([row] * SAMPLE)
    tensors = {name: torch.from_numpy(array).to(trainer.device) for name, array in arrays.items()}
    weights = {weight.untyped_storage().data_ptr() for weight in trainer.working.model.parameters()}
    kept: dict[int, Tensor] = {}

    def count(tensor: Tensor) -> None:
        """Held here for the time of the count, not in the graph, which would then hold itself."""
        address = tensor.untyped_storage().data_ptr()
        if address not in weights:
            kept[address] = tensor.detach()

    counting = torch.autograd.graph.saved_tensors_hooks(count, lambda nothing: nothing)
    # on the stream of the steps: what remembers another one would spoil their capture
    with trainer.on_stream(), counting, torch.compiler.set_stance("force_eager"):
        layout.vectors(encoder, tensors, SAMPLE)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / arrays["ids"].size


def _advice(estimate: Estimate, trainer: Trainer) -> str:
    settings = trainer.settings
    piece = estimate.sentences_that_fit()
    ways = [f"lower max_length ({settings.longest})"]
    if piece and (settings.piece is None or piece < settings.piece):
        ways.insert(0, f"set piece={piece} (gradient caching: the same loss in pieces, for one more forward pass)")
    if settings.batch_size > 2:
        ways.insert(0 if settings.piece else 1, f"lower batch_size ({settings.batch_size})")
    if not piece:
        ways = ["take a smaller model, or a larger machine"]
    return f"{estimate}, so this would not fit; {', or '.join(ways)}."


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
