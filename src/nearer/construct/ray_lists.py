"""Ranking lists over Ray Data: start sentences as a data set, and workers that each hold an engine of their own.

The same lists as in one process, because each answer follows from its request and the seed alone. Finished lists come
back a share at a time, so an interruption costs the shares that workers are at. Without a cluster (RAY_ADDRESS), Ray is
started on this machine and ended with the building; that takes some seconds, 0.5 GiB of memory, and another 0.5 for
each worker besides its engine.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from nearer.construct.list_growth import GrownList, ListSettings, grow_lists
from nearer.construct.list_progress import Progress
from nearer.construct.lists import MakeEngine
from nearer.construct.starts import Start
from nearer.errors import NearerError, SettingError
from nearer.extras import require

SHARE_OF_BATCHES = 4  # a worker's share: so many times the lists that its engine holds at once
OBJECT_STORE = 256 * 2**20  # only sentences pass through it


class OverRay:
    """batch: how many lists an engine grows at once. gpus: of each worker; None takes one if there is one."""

    def __init__(self, make_engine: MakeEngine, *, workers: int, batch: int, gpus: float | None = None) -> None:
        if workers < 1:
            raise SettingError(f"workers: {workers} is below 1.")
        require("ray.data", "ray", "building lists with --engine ray")
        self.make_engine = make_engine
        self.workers = workers
        self.share = SHARE_OF_BATCHES * batch
        self.gpus = gpus
        self._started = False
        self._resources: dict[str, Any] = {}

    def __enter__(self) -> Self:
        import ray

        if not ray.is_initialized():
            self._started = True
            _start(ray)
        ray.data.DataContext.get_current().enable_progress_bars = False
        self._resources = self._per_worker(ray)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        import ray

        if self._started:
            ray.shutdown()
            self._started = False

    def identity(self) -> dict[str, str]:
        """Told by a worker, since this process may lack the GPU for it."""
        import ray

        task = ray.remote(**self._resources)(_identity)
        try:
            found: dict[str, str] = ray.get(task.remote(self.make_engine))
        except ray.exceptions.RayError as error:
            raise _plain(error) from None
        return found

    def grow(self, starts: Sequence[Start], settings: ListSettings, progress: Progress) -> Iterator[GrownList]:
        import ray

        if not starts:
            return
        rows = [asdict(start) for start in starts]
        # a block is what one worker is given at a time
        shared = ray.data.from_items(rows, override_num_blocks=max(1, -(-len(rows) // self.share)))
        grown = shared.map_batches(
            _Worker,
            fn_constructor_args=(self.make_engine, settings),
            batch_size=self.share,
            compute=ray.data.ActorPoolStrategy(size=self.workers, max_tasks_in_flight_per_actor=1),
            **self._resources,
        )
        try:
            for row in grown.iter_rows():
                found = GrownList(**json.loads(row["grown"]))
                progress.generated(len(found.sentences) - 1, found.tokens)
                yield found
        except ray.exceptions.RayError as error:
            raise _plain(error) from None

    def _per_worker(self, ray: Any) -> dict[str, Any]:
        there = ray.cluster_resources()
        gpus = self.gpus if self.gpus is not None else min(1.0, there.get("GPU", 0.0))
        if gpus * self.workers > there.get("GPU", 0.0):
            raise SettingError(f"workers: {self.workers} need a GPU each, Ray has {there.get('GPU', 0.0):g} here.")
        processors = int(there.get("CPU", 1))
        if self.workers > processors:
            raise SettingError(f"workers: {self.workers} asked for, Ray has {processors} processors here.")
        return {"num_cpus": max(1, processors // self.workers), "num_gpus": gpus}


class _Worker:
    """One of the processes: loads the engine once, then grows share after share."""

    def __init__(self, make_engine: MakeEngine, settings: ListSettings) -> None:
        self.engine = make_engine()
        self.settings = settings

    def __call__(self, share: dict[str, Any]) -> dict[str, list[str]]:
        starts = [
            Start(int(number), str(sentence), int(place), None)
            for number, sentence, place in zip(share["number"], share["sentence"], share["place"], strict=True)
        ]
        return {"grown": [json.dumps(asdict(found)) for found in grow_lists(self.engine, starts, self.settings)]}


def _identity(make_engine: MakeEngine) -> dict[str, str]:
    return make_engine().identity()


def _start(ray: Any) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
    else:
        ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE, **quiet)


def _plain(error: Exception) -> Exception:
    """Our own error where a worker raised one; Ray puts it into several others."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NearerError) and type(cause).__module__ == NearerError.__module__:
            return type(cause)(*cause.args)
        cause = getattr(cause, "cause", None) or cause.__cause__
    return error
