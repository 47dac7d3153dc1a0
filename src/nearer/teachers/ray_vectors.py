"""A teacher's vectors over Ray Data: windows of sentences as rows of a data set, workers that each hold the encoder.

    this machine: windows are read ► workers: vectors ► this machine: vectors come in order and are kept

The corpus and the vectors need to be on this machine alone; the encoder goes to the workers as it is here. Windows are
those of one process, so their batches are too. Nothing is held whole: reading waits while workers are behind, workers
wait while this process is. What has come is kept by the store, window after window.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.encoder import Encoder
from nearer.encoder.batching import OF_THIS_PROCESS, CutCounter, CutTexts
from nearer.encoder.encoding import BulkEncoding, once_each
from nearer.extras import require
from nearer.ray_runtime import OBJECT_STORE, RayWorkforce, translate_worker_errors
from nearer.teachers.missing_sentences import MissingSentences, sentence_keys
from nearer.terminal import Advance
from nearer.text.reading import changed

# Windows that a worker has at a time: one computed, one tokenised
WINDOWS_AT_A_TIME = 2
PURPOSE = "embedding with --engine ray"


def check_ray() -> None:
    """Whether it is installed."""
    require("ray.data", "ray", PURPOSE)


class OverRay(RayWorkforce):
    """workers, gpus: see `RayWorkforce`."""

    def __init__(self, encoder: Encoder, *, workers: int | None = None, gpus: float | None = None) -> None:
        super().__init__(PURPOSE, workers=workers, gpus=gpus)
        self.encoder = encoder

    def object_store(self) -> int:
        weights: int = sum(tensor.nbytes for tensor in self.encoder.state_dict().values())
        return OBJECT_STORE + 2 * weights

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if self.resources["num_gpus"] else "cpu")

    def windows(
        self, missing: MissingSentences, size: int, options: dict[str, Any], advance: Advance
    ) -> Generator[NDArray[np.float16]]:
        done, wanted = 0, missing.wanted
        counted: dict[str, CutTexts] = {}
        with translate_worker_errors(), counted_here(self.encoder, counted):
            for table in self._encoded(missing, size, options).iter_batches(batch_size=None, batch_format="pyarrow"):
                for row in table.to_pylist():
                    vectors = np.frombuffer(row["vectors"], dtype=np.float16).reshape(-1, self.encoder.dimension)
                    if wanted[done : done + len(vectors)].tobytes() != row["keys"]:
                        raise changed(missing.reading)
                    done += len(vectors)
                    note_counts(counted, row)
                    advance(len(vectors))
                    yield vectors

    def _encoded(self, missing: MissingSentences, size: int, options: dict[str, Any]) -> Any:
        """A data set with a row for each window, computed as it is read."""
        import ray

        from nearer.teachers.ray_source import WindowSource

        context = ray.data.DataContext.get_current().copy()
        context.execution_options.preserve_order = True
        context.target_max_block_size = 1  # byte: Ray then keeps to a row, which is a window, and joins no two of them
        with ray.data.DataContext.current(context):
            # num_cpus=0: reading takes no worker's processor
            windows = ray.data.read_datasource(WindowSource(missing, size), override_num_blocks=1, num_cpus=0)
            return windows.map_batches(
                EncodingWorker,
                fn_constructor_args=(ray.put(self.encoder), str(self.device), options),
                batch_size=1,
                batch_format="pyarrow",
                compute=ray.data.ActorPoolStrategy(
                    size=min(self.workers, math.ceil(len(missing.wanted) / size)),
                    max_tasks_in_flight_per_actor=WINDOWS_AT_A_TIME,
                    max_concurrent_calls_per_actor=WINDOWS_AT_A_TIME,
                    enable_true_multi_threading=True,
                ),
                **self.resources,
            )


@contextmanager
def counted_here(encoder: Encoder, counted: Mapping[str, CutTexts]) -> Iterator[None]:
    """Adds what the workers counted, by their names, to what this process has; also if it is interrupted."""
    try:
        yield
    finally:
        for counter in (encoder.cut_counter, OF_THIS_PROCESS):
            counter.add_counted(counted.values())


def note_counts(counted: dict[str, CutTexts], row: Mapping[str, Any]) -> None:
    """A worker's counts only grow; its two threads may send them in another order."""
    before = counted.setdefault(row["worker"], CutTexts(row["max_length"]))
    before.texts, before.cut = max(before.texts, row["texts"]), max(before.cut, row["cut"])


class EncodingWorker:
    """One of the processes. It is asked from two threads: while one computes, the other tokenises."""

    def __init__(self, encoder: Any, device: str, options: dict[str, Any]) -> None:
        """encoder: Ray's reference to it."""
        self.given = encoder, device, options
        self.name = uuid.uuid4().hex
        self.computing = threading.Lock()
        self.bulk: BulkEncoding | None = None

    def __call__(self, table: Any) -> Any:
        import pyarrow

        [window] = table.column("sentences").to_pylist()
        keys = sentence_keys(window)
        vectors = self.vectors(window).astype(np.float16)
        row = {"keys": keys.tobytes(), "vectors": vectors.tobytes(), **self.counts()}
        return pyarrow.table({name: [value] for name, value in row.items()})

    def counts(self) -> dict[str, Any]:
        """What it has encoded so far, for `note_counts`: its name, max_length, texts, cut."""
        assert self.bulk is not None
        encoder = self.bulk.encoder
        return {"worker": self.name, **asdict(encoder.cut_counter.found(encoder.settings.max_length))}

    def vectors(self, window: list[str]) -> NDArray[np.float32]:
        with self.computing:
            # not when it is made: what goes wrong in a call is told as it is, and a worker that cannot be made anew
            self.bulk = self.bulk or self._loaded()
        unique, inverse = once_each(window)
        tokenised = self.bulk.tokenise(unique)
        with self.computing:
            found: NDArray[np.float32] = self.bulk.vectors(tokenised).cpu().numpy()
        return found if inverse is None else found[inverse]

    def _loaded(self) -> BulkEncoding:
        import ray

        reference, device, options = self.given
        encoder: Encoder = ray.get(reference)
        encoder.cut_counter = CutCounter()  # not what was counted before it came here
        return BulkEncoding(encoder.to(device).eval(), **options)
