"""Ray as `nearer` uses it: begun quietly and ended, room for workers found, errors of workers told as our own.

`RayWorkforce` is what all work over Ray has in common; `teachers.ray_vectors`, `construct.lists`, `leagues.workers` and
`adaptation.workforce` stand on it.

Without a cluster (RAY_ADDRESS), Ray is started on this machine and ended with the work; that takes some seconds, 0.5
GiB of memory, and another 0.5 for each worker besides what it holds.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from nearer import errors
from nearer.errors import NearerError, SettingError, first_line
from nearer.extras import require

OBJECT_STORE = 256 * 2**20  # enough where only sentences and their vectors pass through it
# The last line of a traceback: nearer.errors.InputError: corpus.txt: no such file.
ERROR_LINE = re.compile(r"(?P<module>(?:\w+\.)*)(?P<name>\w+(?:Error|Exception)): (?P<message>.+)")

DIED = "The actor is dead because its "  # worker process has died, node has died


class RayError(NearerError, RuntimeError):
    """Ray, or a worker of it, could not do its part."""


@dataclass(frozen=True)
class Node:
    """What one machine of a cluster has for workers."""

    cpus: float
    gpus: float


@contextmanager
def running(*, object_store: int = OBJECT_STORE) -> Iterator[None]:
    """Ray is there inside; it is ended afterwards if it was not there before. object_store: bytes, on this machine."""
    import ray

    if started := not ray.is_initialized():
        _start(ray, object_store)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield
    finally:
        if started:
            ray.shutdown()


class RayWorkforce:
    """Workers over Ray: inside `with`, Ray is there and `resources` says what each worker is given.

    purpose: what needs Ray, for the message where it is not installed. workers: None takes one for each GPU, or two.
    gpus: of each worker; None takes one if the cluster has any.
    """

    def __init__(self, purpose: str, *, workers: int | None, gpus: float | None) -> None:
        if workers is not None and workers < 1:
            raise SettingError(f"workers: {workers} is below 1.")
        require("ray.data", "ray", purpose)
        self.workers = workers or 0
        self.gpus = gpus
        self.resources: dict[str, Any] = {}
        self._open = ExitStack()

    def object_store(self) -> int:
        """Bytes that pass through Ray at a time, on this machine."""
        return OBJECT_STORE

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(running(object_store=self.object_store()))
            there = nodes()
            all_gpus = sum(node.gpus for node in there)
            gpus = min(1.0, all_gpus) if self.gpus is None else self.gpus
            self.workers = self.workers or (int(all_gpus // gpus) if gpus else 2)
            self.resources = per_worker(there, self.workers, gpus)
            self._open = stack.pop_all()  # from here on it stays until the end
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()


@contextmanager
def translate_worker_errors() -> Iterator[None]:
    """What goes wrong in a worker is raised as our own error (see `plain`)."""
    import ray

    try:
        yield
    except ray.exceptions.RayError as error:
        raise plain(error) from None


def nodes() -> list[Node]:
    """The machines of the cluster that are up."""
    ray = require("ray", "ray", "asking for a cluster's machines")
    there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Node(resources.get("CPU", 0.0), resources.get("GPU", 0.0)) for resources in there]


def per_worker(there: Sequence[Node], workers: int, gpus: float) -> dict[str, Any]:
    """What each of `workers` is given: `gpus`, and as many processors as can be had for all of them alike."""
    all_gpus, all_cpus = sum(node.gpus for node in there), int(sum(node.cpus for node in there))
    if gpus * workers > all_gpus:
        raise SettingError(f"workers: {workers} need a GPU each, Ray has {all_gpus:g} here.")
    if workers > all_cpus:
        raise SettingError(f"workers: {workers} asked for, Ray has {all_cpus} processors here.")
    for cpus in range(all_cpus // workers, 0, -1):
        if sum(_room(node, cpus, gpus) for node in there) >= workers:
            return {"num_cpus": cpus, "num_gpus": gpus}
    raise SettingError(f"workers: {workers} find no room: a worker's GPU and its processor must be of one machine.")


def plain(error: Exception) -> NearerError:
    """Our own error where a worker raised one, else what happened there, in one line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NearerError) and type(cause).__module__ == errors.__name__:
            return type(cause)(*cause.args)
        cause = getattr(cause, "cause", None) or cause.__cause__
    # Ray Data leaves of a worker's error the text alone: a traceback, the first error before those that came of it
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if found := ERROR_LINE.match(line):
            ours = getattr(errors, found["name"], None) if found["module"] == f"{errors.__name__}." else None
            return RayError(f"a Ray worker failed ({line[:300]}).") if ours is None else ours(found["message"])
    if any(DIED in line for line in lines):
        return RayError(
            "a Ray worker died: its process or its machine is gone, most often for want of memory; fewer workers "
            "(--workers) need less."
        )
    return RayError(f"a Ray worker failed ({lines[-1][:300] if lines else type(error).__name__}).")


def _room(node: Node, cpus: int, gpus: float) -> int:
    by_cpus = int(node.cpus // cpus)
    return min(by_cpus, int(node.gpus // gpus)) if gpus else by_cpus


def _start(ray: Any, object_store: int) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised, and told once
    address = os.environ.get("RAY_ADDRESS")
    # its C++ parts write to our standard error, past Python's logging, what is no news to a user
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if not address:
        with _native_messages_hidden():
            ray.init(address="local", include_dashboard=False, object_store_memory=object_store, **quiet)
        return
    if address.startswith("ray://"):
        raise SettingError(
            f"RAY_ADDRESS: {address} is for Ray's client, through which no data streams; run the command on a machine "
            "of the cluster, with RAY_ADDRESS=auto."
        )
    try:
        with _native_messages_hidden():
            ray.init(**quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SettingError(f"RAY_ADDRESS: no Ray cluster answers at {address} ({first_line(error)}).") from None


@contextmanager
def _native_messages_hidden() -> Iterator[None]:
    """What Ray's C++ parts say as they start, that their log level was set for one."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
