"""One item ahead in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nearer.encoder.encoding import one_ahead
from patience import HANG


def nothing() -> None:
    pass


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_all_in_order(count: int) -> None:
    assert list(one_ahead(lambda item: -item, range(count), nothing)) == [-item for item in range(count)]


def test_the_next_is_made_while_one_is_used() -> None:
    made = [threading.Event() for _ in range(3)]
    used = 0
    for item in one_ahead(lambda item: made[item].set() or item, range(3), nothing):
        assert made[min(item + 1, 2)].wait(timeout=HANG)
        used += 1
    assert used == 3


def test_a_single_one_needs_no_thread() -> None:
    [thread] = one_ahead(lambda item: threading.current_thread(), [1], nothing)
    assert thread is threading.main_thread()


def test_items_are_taken_in_the_callers_thread() -> None:
    def items() -> Iterator[int]:
        for item in range(3):
            assert threading.current_thread() is threading.main_thread()
            yield item

    assert list(one_ahead(lambda item: item, items(), nothing)) == [0, 1, 2]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_goes_wrong_in_the_thread_is_raised_here(place: int) -> None:
    with pytest.raises(ZeroDivisionError):
        list(one_ahead(lambda item: 1 // (item - place), range(3), nothing))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_caller_that_leaves_stops_the_thread(error: type[BaseException]) -> None:
    stopped = threading.Event()

    def make(item: int) -> int:
        if item == 1:
            assert stopped.wait(timeout=HANG), "nobody told the thread to stop"
        return item

    made = one_ahead(make, range(3), stopped.set)
    next(made)
    with pytest.raises(error):
        made.throw(error)
    assert not any(thread.name.startswith("nearer-ahead") for thread in threading.enumerate())
