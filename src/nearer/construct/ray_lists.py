"""Ranking lists over Ray Data: start sentences as a data set, and workers that each hold an engine of their own.

The same lists as in one process, because each answer follows from its request and the seed alone. Finished lists come
back a share at a time, so an interruption costs the shares that workers are at. Where Ray runs: `ray_runtime`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from nearer.construct.list_growth import GrownList, ListSettings, grow_lists
from nearer.construct.lists import MakeEngine, Progress
from nearer.construct.start_sentences import Start
from nearer.ray_runtime import RayWorkforce, translate_worker_errors

SHARE_OF_BATCHES = 4  # a worker's share: so many times the lists that its engine holds at once


class OverRay(RayWorkforce):
    """batch: how many lists an engine grows at once."""

    def __init__(self, make_engine: MakeEngine, *, workers: int, batch: int, gpus: float | None = None) -> None:
        super().__init__("building lists with --engine ray", workers=workers, gpus=gpus)
        self.make_engine = make_engine
        self.share = SHARE_OF_BATCHES * batch

    def identity(self) -> dict[str, str]:
        """Told by a worker, since this process may lack the GPU for it."""
        import ray

        task = ray.remote(**self.resources)(_identity)
        with translate_worker_errors():
            found: dict[str, str] = ray.get(task.remote(self.make_engine))
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
            **self.resources,
        )
        with translate_worker_errors():
            for row in grown.iter_rows():
                found = GrownList(**json.loads(row["grown"]))
                progress.generated(len(found.sentences) - 1, found.tokens)
                yield found


class _Worker:
    """One of the processes: loads the engine once, then grows share after share."""

    def __init__(self, make_engine: MakeEngine, settings: ListSettings) -> None:
        self.engine = make_engine()
        self.settings = settings

    def __call__(self, share: dict[str, Any]) -> dict[str, list[str]]:
        starts = [
            Start(int(number), str(sentence), int(index), None)
            for number, sentence, index in zip(share["number"], share["sentence"], share["index"], strict=True)
        ]
        return {"grown": [json.dumps(asdict(found)) for found in grow_lists(self.engine, starts, self.settings)]}


def _identity(make_engine: MakeEngine) -> dict[str, str]:
    return make_engine().identity()
