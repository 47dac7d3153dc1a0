"""Who does the runs: this process, one after the other; processes of this machine, side by side; or workers of Ray.

Workers write run folders themselves, so on several machines the league's folder, texts and models must lie where all
of them find them under one name.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Protocol, Self

from nearer.errors import NearerError
from nearer.leagues.runs import Job, do_job
from nearer.ray_runtime import RayWorkforce, translate_worker_errors
from nearer.sweeps.results import SweepRun
from nearer.terminal import each_line_once

GRACE = 60.0  # seconds that a run has to keep what it has reached
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Workers(Protocol):
    def do(self, jobs: deque[Job]) -> Iterator[tuple[Job, SweepRun]]:
        """Each job with what came of it, as they end. They are taken from the front; more may be added meanwhile."""


class OneByOne:
    """In this process."""

    def __init__(self, *, progress: bool) -> None:
        self.progress = progress
        self.said: set[str] = set()

    def do(self, jobs: deque[Job]) -> Iterator[tuple[Job, SweepRun]]:
        while jobs:
            job = jobs.popleft()
            with each_line_once(self.said):
                run = do_job(job, progress=self.progress)
            yield job, run


@dataclass(frozen=True)
class _Worker:
    """A process that does one run after the other. number: of it among all, from 0."""

    process: SpawnProcess
    connection: Connection
    number: int


class SideBySide:
    """So many processes of this machine. Each has one of its GPUs, or shares it with others; without one, its part of
    the cores.

    A small model leaves most of a GPU idle, so a few at a time end sooner. A process that dies costs its own run only.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.idle: list[_Worker] = []
        self.busy: dict[_Worker, Job] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.idle:
            worker.connection.close()  # it ends when nobody can ask it any more
        for worker in self.busy:
            if worker.process.pid is not None and worker.process.is_alive():
                os.kill(worker.process.pid, signal.SIGINT)  # it keeps what it has reached
        for worker in self.busy:
            worker.process.join(GRACE)
            worker.process.terminate()
        for worker in (*self.idle, *self.busy):
            worker.process.join()

    def do(self, jobs: deque[Job]) -> Iterator[tuple[Job, SweepRun]]:
        while jobs or self.busy:
            while jobs and len(self.busy) < self.workers:
                worker = self.idle.pop() if self.idle else self._start()
                self.busy[worker] = jobs.popleft()
                worker.connection.send(self.busy[worker])
            for worker in self._ended():
                job = self.busy.pop(worker)
                try:
                    run: SweepRun = worker.connection.recv()
                    self.idle.append(worker)
                except EOFError:
                    worker.process.join()
                    reason = f"its process ended with {worker.process.exitcode}; it may have run out of memory"
                    run = SweepRun(job.run.point, job.run.seed, job.run.folder, state="failed", reason=reason)
                yield job, run

    def _ended(self) -> list[_Worker]:
        ready = wait([worker.connection for worker in self.busy])
        return [worker for worker in self.busy if worker.connection in ready]

    def _start(self) -> _Worker:
        taken = {worker.number for worker in (*self.idle, *self.busy)}
        number = min(set(range(self.workers)) - taken)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_do_as_asked, args=(theirs, self.workers))
        with _seeing_one_gpu(number):
            process.start()
        theirs.close()
        return _Worker(process, ours, number)


@contextmanager
def _seeing_one_gpu(number: int) -> Iterator[None]:
    """Processes that start here see one GPU each; which ones there are is read once, when a process looks first."""
    import torch

    before = os.environ.get(VISIBLE)
    count = torch.cuda.device_count()
    if count:
        devices = before.split(",") if before else [str(each) for each in range(count)]
        os.environ[VISIBLE] = devices[number % len(devices)]
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = before


def _do_as_asked(connection: Connection, workers: int) -> None:
    """A process of `SideBySide`: sends back what came of each run, and ends with whoever asks."""
    import torch

    os.setsid()  # Ctrl-C is passed on once, by whoever asks
    if not torch.cuda.is_available():
        torch.set_num_threads(max(1, torch.get_num_threads() // workers))
    try:
        with each_line_once(set()):
            while True:
                connection.send(do_job(connection.recv()))
    except (EOFError, OSError, KeyboardInterrupt):
        return


class OverRay(RayWorkforce):
    """workers: None takes one for each GPU, or two."""

    def __init__(self, *, workers: int | None) -> None:
        super().__init__("a league with --engine ray", workers=workers, gpus=None)

    def do(self, jobs: deque[Job]) -> Iterator[tuple[Job, SweepRun]]:
        import ray

        # a worker process for each run: what one leaves on its GPU is gone before the next begins
        remote = ray.remote(max_calls=1, max_retries=0, **self.resources)(_do_in_worker)
        under_way: dict[Any, Job] = {}
        while jobs or under_way:
            while jobs and len(under_way) < self.workers:
                job = jobs.popleft()
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
    os.chdir(folder)
    return do_job(job)


def make_workers(engine: str, workers: int | None, *, progress: bool) -> AbstractContextManager[Workers]:
    if engine == "ray":
        return OverRay(workers=workers)
    if workers is not None and workers > 1:
        return SideBySide(workers)
    return nullcontext(OneByOne(progress=progress))
