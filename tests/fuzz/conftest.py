"""How much is tried: a little in `make test`, much in `make fuzz` (NEARER_FUZZ names the examples of each target)."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest

from patience import HANG

EXAMPLES = int(os.environ.get("NEARER_FUZZ", "0"))
MEMORY = 4 * 2**30  # bytes that an example may take beyond what the process has

shared: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(hypothesis.HealthCheck),
    "print_blob": True,
}
# the same examples in every run of the tests, others in each run of the long form
hypothesis.settings.register_profile("short", derandomize=True, database=None, **shared)
hypothesis.settings.register_profile("long", max_examples=EXAMPLES or 1, **shared)


@pytest.fixture(autouse=True)
def _profile() -> Iterator[None]:
    hypothesis.settings.load_profile("long" if EXAMPLES else "short")
    yield
    hypothesis.settings.load_profile("patient")  # of the other tests


@pytest.fixture(scope="session")
def bounded() -> Callable[[], Any]:
    """A context in which memory and time have an end: more of either fails the test instead of the machine."""

    @contextmanager
    def limits() -> Iterator[None]:
        def give_up(*_: object) -> None:
            raise AssertionError(f"took more than {HANG} seconds")

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        before, hard = resource.getrlimit(resource.RLIMIT_AS)
        handler = signal.signal(signal.SIGALRM, give_up)
        signal.alarm(HANG)
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (before, hard))
            signal.alarm(0)
            signal.signal(signal.SIGALRM, handler)

    return limits
