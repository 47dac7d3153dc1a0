"""Who does the runs: this process, one after the other, or workers of Ray, several at a time.

Workers write run folders themselves, so on several machines the league's folder, texts and models must lie where all
of them find them under one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from nearer.errors import NearerError
from nearer.leagues.runs import Job, do_job
from nearer.ray_runtime import RayWorkforce, translate_worker_errors
from nearer.sweeps.results import SweepRun


class Workers(Protocol):
    def do(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, SweepRun]]:
        """Each job with what came of it, as they end."""


class OneByOne:
    """In this process."""

    def __init__(self, *, progress: bool) -> None:
        self.progress = progress

    def do(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, SweepRun]]:
        for job in jobs:
            yield job, do_job(job, progress=self.progress)


class OverRay(RayWorkforce):
    """workers: None takes one for each GPU, or two."""

    def __init__(self, *, workers: int | None) -> None:
        super().__init__("a league with --engine ray", workers=workers, gpus=None)

    def do(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, SweepRun]]:
        import ray

        # a worker process for each run: what one leaves on its GPU is gone before the next begins
        remote = ray.remote(max_calls=1, max_retries=0, **self.resources)(_do_in_worker)
        under_way: dict[Any, Job] = {}
        waiting = list(jobs)
        while waiting or under_way:
            while waiting and len(under_way) < self.workers:
                job = waiting.pop(0)
                under_way[remote.remote(job, str(Path.cwd()))] = job
            [ended], _ = ray.wait(list(under_way), num_returns=1)
            job = under_way.pop(ended)
            yield job, self._outcome(ended, job)

    @staticmethod
    def _outcome(reference: Any, job: Job) -> SweepRun:
        import ray

        try:
            with translate_worker_errors():
                done: SweepRun = ray.get(reference)
            return done
        except NearerError as error:  # its process died, out of memory for one
            return SweepRun(job.run.point, job.run.seed, job.run.folder, state="failed", reason=str(error))


def _do_in_worker(job: Job, folder: str) -> SweepRun:
    """folder: the one that paths of the league are relative to."""
    import os

    os.chdir(folder)
    return do_job(job)


def make_workers(engine: str, workers: int | None, *, progress: bool) -> AbstractContextManager[Workers]:
    if engine == "ray":
        return OverRay(workers=workers)
    return nullcontext(OneByOne(progress=progress))
