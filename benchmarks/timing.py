"""Timing competitors side by side.

A round is timed by the clock on the wall between two moments at which the device has nothing left to do: what a user
waits for, the time in which the CPU prepares the next step included. Competitors take turns round by round, in
an order that is turned about each time, so that what disturbs the machine disturbs all of them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from benchmarks.memory import out_of_memory


class Steps(Protocol):
    """A training that is taken on step by step."""

    def advance(self) -> None:
        """One optimiser step; the device may still be at it on return."""

    def synchronize(self) -> None:
        """Wait for the device."""

    def close(self) -> None:
        """Give back what is held, device memory above all."""


@dataclass(frozen=True)
class Timing:
    """Seconds of each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def time_steps(steps: Steps, count: int) -> float:
    """Seconds a step, over `count` of them."""
    steps.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        steps.advance()
    steps.synchronize()
    return (time.perf_counter() - start) / count


def alternate(competitors: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Timing]:
    """Let each competitor, which times itself, have `rounds` turns. One that runs out of memory is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    for number in range(rounds):
        names = list(seconds)
        for name in names if number % 2 == 0 else reversed(names):
            try:
                seconds[name].append(competitors[name]())
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                del seconds[name]
    return {name: Timing(tuple(times)) for name, times in seconds.items()}


def split_in_rounds(steps: int, most: int = 5) -> tuple[int, int]:
    """So many rounds of so many steps, at least `steps` in all."""
    rounds = min(most, steps)
    return rounds, -(-steps // rounds)
