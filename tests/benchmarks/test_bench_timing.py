"""Rounds in turn, paced loops, memory; no clock is judged here."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from benchmarks.memory import process_peak
from benchmarks.peer import _Paced
from benchmarks.steps import WARM_UPS, warm_up
from benchmarks.timing import Timing, alternate, split_in_rounds, time_steps


class Recorded:
    """Steps that only write down what was asked of them."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def advance(self) -> None:
        self.calls.append("advance")

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def close(self) -> None:
        self.calls.append("close")


def test_a_round_begins_and_ends_with_an_idle_device() -> None:
    steps = Recorded()
    assert time_steps(steps, 3) > 0
    assert steps.calls == ["synchronize", "advance", "advance", "advance", "synchronize"]


class Capturing(Recorded):
    """Steps that capture something at these of them."""

    start_up_seconds = 0.0

    def __init__(self, at: set[int]) -> None:
        super().__init__()
        self.at = at

    def advance(self) -> None:
        super().advance()
        self.start_up_seconds += 2.0 * (self.calls.count("advance") in self.at)


@pytest.mark.parametrize(("at", "taken"), [(set(), 3), ({1}, 6), ({2, 6}, 9), (set(range(100)), 3 * WARM_UPS)], ids=str)
def test_the_warm_up_ends_when_no_shape_is_new(at: set[int], taken: int) -> None:
    steps = Capturing(at)
    assert warm_up(steps, 3) == taken
    assert steps.calls.count("advance") == taken


def test_competitors_take_turns() -> None:
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return float(len(order))

    timings = alternate({name: partial(turn, name) for name in "abc"}, 3)
    assert "".join(order) == "abccbaabc"
    assert timings["b"] == Timing((2.0, 5.0, 8.0))
    assert timings["b"].median == 5.0


def test_who_runs_out_of_memory_leaves() -> None:
    def fail() -> float:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    assert alternate({"large": fail, "small": lambda: 1.0}, 2) == {"small": Timing((1.0, 1.0))}


def test_another_failure_is_not_hidden() -> None:
    def fail() -> float:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        alternate({"broken": fail}, 2)


@pytest.mark.parametrize(("steps", "split"), [(1, (1, 1)), (5, (5, 1)), (7, (5, 2)), (100, (5, 20))])
def test_steps_are_split_in_rounds(steps: int, split: tuple[int, int]) -> None:
    assert split_in_rounds(steps) == split


class TestPaced:
    def test_one_step_at_a_time(self) -> None:
        done: list[int] = []

        def loop(pause) -> None:
            for step in range(1_000_000):
                pause()
                done.append(step)

        paced = _Paced(loop)
        assert done == []
        paced.advance()
        assert done == [0]
        paced.advance()
        assert done == [0, 1]
        paced.stop()
        assert done == [0, 1]

    def test_its_failure_is_ours(self) -> None:
        def loop(pause) -> None:
            pause()
            raise torch.OutOfMemoryError("CUDA out of memory.")

        paced = _Paced(loop)
        with pytest.raises(torch.OutOfMemoryError):
            paced.advance()
        paced.stop()

    def test_a_loop_that_ends_is_noticed(self) -> None:
        with pytest.raises(RuntimeError, match="ended before"):
            _Paced(lambda pause: None)


def test_peak_of_the_process() -> None:
    with process_peak() as peak:
        held = torch.ones(16 * 2**20)  # 64 MiB
        del held
    assert peak.used is not None
    assert peak.total is not None
    assert peak.total > peak.used >= 0
