"""Everything that takes steps: the model as it computes, the optimiser, and batches made ready ahead."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nearer.distributed import rank, world_size
from nearer.encoder import Encoder
from nearer.encoder.cpu_training import train_on_cpu
from nearer.encoder.packed import PackedLayout, can_pack
from nearer.encoder.packed_attention import LONGEST, have_kernels
from nearer.encoder.padded import PaddedLayout
from nearer.methods.contract import Method
from nearer.runs.checkpoints import load_checkpoint
from nearer.text.token_store import TokenStore
from nearer.training.compute import Computation
from nearer.training.feed import Feed, Prefetcher, total_steps
from nearer.training.prepared import Layout, Layouts, Prepared, prepare
from nearer.training.settings import TrainingSettings
from nearer.training.step import PlainStep, Readings, Step, learning_rate, make_optimiser
from nearer.training.working_copy import WorkingCopy, has_same_architecture

# Lengths of captured batches: about so many different ones
LENGTHS = 6
# Batches whose tokens are counted where a step draws its rows
SAMPLED = 32


class Trainer:
    """`advance()` takes one step. On a GPU it returns before the step is done."""

    def __init__(self, encoder: Encoder, method: Method, store: TokenStore, settings: TrainingSettings) -> None:
        self.encoder = encoder
        self.settings = settings
        self.device = encoder.device
        self.method = method
        self.feed = Feed(store, settings, views=method.facts.views, topics=method.topics())
        self.steps = total_steps(self.feed, settings)
        self.model = nn.ModuleDict({"encoder": encoder, "method": method.modules()})
        self.parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimiser = make_optimiser(self.parameters, settings, self.device)
        self.step = 0
        self.seen = 0
        self.step_seconds: float | None = None  # mean over the steps since the start or the resumption, at the end
        self._batches: Prefetcher[list[Prepared]] | None = None
        self._build()

    @property
    def fast(self) -> bool:
        return self.settings.compile and self.device.type == "cuda" and have_kernels()

    @property
    def precision(self) -> str:
        chosen = self.settings.precision
        return ("bf16" if self.device.type == "cuda" else "float32") if chosen == "auto" else chosen

    @property
    def start_up_seconds(self) -> float:
        """Spent so far on compiling and capturing."""
        return self.take.start_up_seconds

    def remarks(self) -> list[str]:
        """What the user should know of how steps are taken; each once."""
        remarks, self.take.remarks = self.take.remarks, []
        return remarks

    def restore(self, checkpoint: Path) -> dict[str, Any]:
        """Go on from a checkpoint; returns its state."""
        state = load_checkpoint(checkpoint, self.model, self.optimiser)
        self.working.renew()
        self.step = state["step"]
        return state

    def advance(self) -> Readings:
        if self._batches is None:
            self._batches = Prefetcher(self.prepared, self.step, self.steps)
        batches = self._batches.next()
        rate = learning_rate(self.step, self.steps, self.settings)
        readings = self.take(self.step * self.settings.accumulation, batches, rate)
        self.step += 1
        self.seen += sum(batch.records for batch in batches)
        return readings

    def on_stream(self) -> AbstractContextManager[None]:
        """Where gradients are computed, for whoever computes some outside a step."""
        return self.take.on_stream()

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    def _build(self) -> None:
        settings = self.settings
        packed = self.fast and self._packs()
        self.layouts = self._layouts(packed)
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float32
        self.working = WorkingCopy(self.model, dtype=dtype, packed=packed, kernels=self.fast)
        if self.device.type == "cpu":
            # not the networks within modules: what they give on a CPU is to stay as it was recorded
            for encoder in (self.working.encoder, *self.working.modules.children()):
                if isinstance(encoder, Encoder):
                    train_on_cpu(encoder)
        computation = Computation(self.working, self.method, self.layouts)
        plain = PlainStep(computation, self.optimiser, settings.clip, self.device, self.feed.noise_seed)
        self.take: Step = plain
        if self.fast:
            from nearer.training.gpu.fast_step import FastStep, compile_blocks  # needs Triton

            compile_blocks(self.working, dynamic=packed)
            # several processes talk in the middle of a step, which no graph can hold
            self.take = FastStep(plain, usual=settings.batch_size, capture=world_size() == 1)

    def _packs(self) -> bool:
        # without a kernel for long sentences in float32, padding is the lesser evil
        return can_pack(self.encoder) and (self.precision == "bf16" or self.settings.longest <= LONGEST)

    def _layouts(self, packed: bool) -> Layouts:
        padded = self._padded_layout()
        if not packed:
            return Layouts(padded)
        quantum = max(64, math.ceil(self._token_spread() / LENGTHS / 64) * 64)
        modules: Any = self.model["method"]
        others = {name: padded for name, module in modules.items() if not has_same_architecture(module, self.encoder)}
        return Layouts(PackedLayout(self.encoder, longest=self.settings.longest, quantum=quantum), others)

    def _token_spread(self) -> int:
        """How far apart the largest and the smallest batch are, in tokens."""
        if not self.method.draws_rows:
            return self.feed.token_spread()
        drawn = [self.method.inputs(self.feed.batch(number)) for number in range(min(SAMPLED, self.steps))]
        totals = [sum(len(row) for each in inputs.passes.values() for row in each.rows) for inputs in drawn]
        return max(totals) - min(totals)

    def _padded_layout(self) -> Layout:
        longest = self.settings.longest
        on_cpu = self.device.type == "cpu"
        return PaddedLayout(
            self.encoder, longest=longest, multiple=8 if self.fast else 1, rectangles=3 if on_cpu else 1
        )

    def prepared(self, step: int) -> list[Prepared]:
        """The batches of a step."""
        first = step * self.settings.accumulation
        return [self._prepare(first + turn) for turn in range(self.settings.accumulation)]

    def _prepare(self, number: int) -> Prepared:
        inputs = self.method.inputs(self.feed.batch(number))
        counts, pinned = self.feed.counts(number), self.device.type == "cuda"
        return prepare(inputs, self.layouts, counts, own=rank(), piece=self.settings.piece, pinned=pinned)
