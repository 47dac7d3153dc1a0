"""The step for a GPU: blocks compiled, the whole of it captured as CUDA graphs, no operation that makes the CPU wait.

At 32 tokens a step's arithmetic takes two milliseconds and the launching of its thousands of kernels sixty. A graph
launches them all at once. There is one for each shape of batch (`Prepared.key`; layouts take care that few occur), the
optimiser's work in it; all share their memory, since they run one after the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.optim import AdamW

from nearer.errors import first_line
from nearer.storage.cache import cache_folder
from nearer.training.compute import Computation, unseeded
from nearer.training.gpu.adam_kernel import Trained, Update
from nearer.training.prepared import Prepared
from nearer.training.step import PlainStep, Readings, SeedOf, make_moments, seed_device, set_rate, stacked
from nearer.training.working_copy import WorkingCopy, layers_of

# More shapes than that would take longer to capture than they save
MOST_GRAPHS = 16
WARM_UP = 2


@dataclass
class _Graph:
    graph: torch.cuda.CUDAGraph
    tensors: dict[str, Tensor]
    names: list[str]
    values: Tensor


class FastStep:
    """Stands in for a plain step, and leaves to it what cannot be captured or has another size than `usual`."""

    def __init__(self, plain: PlainStep, *, usual: int, capture: bool) -> None:
        self.usual = usual
        self.plain = plain
        self.computation: Computation = plain.computation
        self.optimiser: AdamW = plain.optimiser
        self.device = plain.device
        self.seed_of: SeedOf = plain.seed_of
        self.capture = capture
        self.start_up_seconds = 0.0
        self.remarks: list[str] = []
        self.graphs: dict[tuple[Any, ...], _Graph] = {}
        self.norm = torch.zeros((), device=self.device)
        self.summed: dict[int, Tensor] = {}  # gradients of several batches, by the weight's id
        self.update: torch.cuda.CUDAGraph | None = None  # after several batches; after one it is in the batch's graph
        self.kept: list[Any] = []  # what captured work reads, and nobody else holds
        self.pool = torch.cuda.graph_pool_handle()
        self.stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __call__(self, number: int, batches: Sequence[Prepared], rate: float) -> Readings:
        with self.on_stream():
            return self._step(number, batches, rate)

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """On the stream that captures. Whatever computes gradients must be there, or a capture would have to wait."""
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            yield
        current.wait_stream(self.stream)

    def _step(self, number: int, batches: Sequence[Prepared], rate: float) -> Readings:
        if not all(self._ready(batch, turn, len(batches)) for turn, batch in enumerate(batches)):
            return self.plain(number, batches, rate)
        set_rate(self.optimiser, rate)
        values = []
        for turn, batch in enumerate(batches):
            graph = self.graphs[_key(batch, turn, len(batches))]
            for name, tensor in batch.tensors.items():
                graph.tensors[name].copy_(tensor, non_blocking=True)
            seed_device(self.seed_of(number + turn, 0), self.device)
            graph.graph.replay()
            values.append(graph.values.clone())
        if self.update is not None:
            self.update.replay()
        return Readings.of(graph.names, values, self.norm)

    def _ready(self, batch: Prepared, turn: int, count: int) -> bool:
        """Whether there is a graph for this batch; captured now if that is worth it."""
        key = _key(batch, turn, count)
        if key in self.graphs:
            return True
        # attention other than our kernel draws its dropout from the device, and a graph cannot seed that for each pass
        seeded = self.computation.working.noise is not None and getattr(self.computation.layouts.usual, "kernel", False)
        if not self.capture or batch.plan.in_pieces or (batch.plan.shared_noise and not seeded):
            return False
        if sum(batch.plan.counts) != self.usual or len(self.graphs) >= MOST_GRAPHS:
            return False
        started = time.perf_counter()
        self.capture = self._can_be_captured(batch, count)
        if self.capture:
            self.graphs[key] = self._captured(batch, turn == 0, count)
            if count > 1 and self.update is None:
                self._capture_update()
        self.start_up_seconds += time.perf_counter() - started
        return self.capture

    def _can_be_captured(self, batch: Prepared, count: int) -> bool:
        """Whether the batch can be computed without a word to the host; found out by trying.

        Some models make tensors of Python's numbers in every pass. A capture would fail there, and half of one
        cannot be undone.
        """
        tensors = {name: tensor.to(self.device) for name, tensor in batch.tensors.items()}
        for _ in range(WARM_UP):  # compiles, and lets libraries make what they make at first use
            self._forget_gradients()
            self.computation.backward(batch.plan, tensors, 1 / count, unseeded)
        torch.cuda.synchronize()
        try:
            with _as_if_captured():
                self._forget_gradients()
                losses = self.computation.backward(batch.plan, tensors, 1 / count, unseeded)
                with _put_back(self.computation.working):
                    self.computation.remember(losses)
        except RuntimeError as error:
            self.remarks.append(f"the step is compiled but not captured, which is slower ({first_line(error)})")
            return False
        finally:
            self._forget_gradients()
        return True

    def _captured(self, batch: Prepared, first: bool, count: int) -> _Graph:
        tensors = {name: tensor.to(self.device) for name, tensor in batch.tensors.items()}
        make_moments(self.optimiser)
        self._forget_gradients()
        self.computation.backward(batch.plan, tensors, 1 / count, unseeded)
        found = self._found()
        if count == 1:
            tables = Update(found, self.optimiser, self.plain.clip).tables(self.device)
        for each in found if count > 1 else ():
            self.summed.setdefault(id(each.weight), torch.zeros_like(each.weight))
        self._forget_gradients()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                losses = self.computation.backward(batch.plan, tensors, 1 / count, unseeded)
                self.computation.remember(losses)
                found = self._found()
                if count == 1:
                    update = Update(found, self.optimiser, self.plain.clip)
                    update.launch(tables, self.norm)
                else:
                    self._add_up(found, first)
                values = stacked(losses)
        finally:
            self._forget_gradients()
        if count == 1:
            update.fill(tables)  # the gradients' addresses are known now
            self.kept.append(tables)
        return _Graph(graph, tensors, ["loss", *losses.parts], values)

    @torch.no_grad()
    def _add_up(self, found: Sequence[Trained], first: bool) -> None:
        for each in found:
            into = self.summed[id(each.weight)]
            into.copy_(each.gradient) if first else into.add_(each.gradient)

    def _capture_update(self) -> None:
        copies = {id(copied.master): copied.values for copied in self.computation.working.copies}
        trained = [
            Trained(weight, self.summed[id(weight)], copies.get(id(weight)))
            for weight in self.plain.parameters
            if id(weight) in self.summed
        ]
        update = Update(trained, self.optimiser, self.plain.clip)
        tables = update.tables(self.device)
        torch.cuda.synchronize()
        self.kept.append(tables)
        self.update = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.update, pool=self.pool, stream=self.stream):
            update.launch(tables, self.norm)

    def _found(self) -> list[Trained]:
        """The gradients that there are now."""
        copies = self.computation.working.copies
        copied = {id(each.master) for each in copies}
        found = [Trained(each.master, each.gradient, each.values) for each in copies if each.gradient is not None]
        plain = [weight for weight in self.plain.parameters if id(weight) not in copied and weight.grad is not None]
        return found + [Trained(weight, weight.grad, None) for weight in plain]

    def _forget_gradients(self) -> None:
        self.computation.working.forget_gradients()
        for weight in self.plain.parameters:
            weight.grad = None


@contextmanager
def _as_if_captured() -> Iterator[None]:
    """Whatever would wait for the GPU fails, and who asks is told that a capture is under way."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True):
            yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@contextmanager
def _put_back(working: WorkingCopy) -> Iterator[None]:
    """What a method changes itself is as it was afterwards: trying is no step."""
    frozen = [weight for weight in working.model.parameters() if not weight.requires_grad]
    masters = [copied.master for copied in working.copies if not copied.master.requires_grad]
    changing = [*working.modules.buffers(), *frozen, *masters]
    before = [tensor.clone() for tensor in changing]
    try:
        yield
    finally:
        for tensor, value in zip(changing, before, strict=True):
            tensor.copy_(value)


def _key(batch: Prepared, turn: int, count: int) -> tuple[Any, ...]:
    return (count, turn == 0, *batch.key)


def compile_blocks(working: WorkingCopy, *, dynamic: bool) -> None:
    """Compile the backbones' blocks. They are alike, so one compilation serves them all; kept between runs."""
    _keep_compiled_code()
    _leave_cpu_untested()
    torch._dynamo.config.cache_size_limit = max(64, torch._dynamo.config.cache_size_limit)
    for encoder in working.encoders:
        for block in layers_of(encoder):
            block.compile(dynamic=dynamic)


def _keep_compiled_code() -> None:
    """In our cache, unless the user named another folder: torch's own is a temporary folder."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if named is None or named == str(Path(default_cache_dir()).absolute()):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache_folder("compiled"))


def _leave_cpu_untested() -> None:
    """Keep the compiler from testing which vector instructions the CPU has, unless the user set it.

    Before it compiles any C++, it builds a program for each kind and loads it in a new process that imports torch. It
    does not keep the answer: on an H200's host, this took 40 of 46 seconds of every start. Steps on a GPU compute next
    to nothing on the CPU.
    """
    import torch._inductor.config as inductor

    if inductor.cpp.vec_isa_ok is None:
        inductor.cpp.vec_isa_ok = False
