"""Batches made ahead: all of them, in order, and no thread left behind."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nearer.training.feed import AHEAD, Prefetcher
from patience import HANG


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert [thread.name for thread in threading.enumerate() if thread not in before and thread.name == "prefetch"] == []


def soon(call: Callable[[], Any]) -> Any:
    """What the call returns or raises; one that never ends is an error here instead."""
    outcome: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue()

    def work() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:
            outcome.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    value, error = outcome.get(timeout=HANG)
    if error is not None:
        raise error
    return value


@pytest.mark.parametrize(("first", "end"), [(0, 50), (7, 30), (3, 4)])
def test_every_item_comes_once_and_in_order(first: int, end: int) -> None:
    items = Prefetcher(lambda number: f"batch {number}", first, end)
    assert [soon(items.next) for _ in range(first, end)] == [f"batch {number}" for number in range(first, end)]
    soon(items.close)


def test_items_are_made_before_they_are_asked_for_and_in_another_thread() -> None:
    made = threading.Event()
    makers: list[str] = []

    def make(number: int) -> int:
        makers.append(threading.current_thread().name)
        made.set()
        return number

    items = Prefetcher(make, 0, 1)
    assert made.wait(timeout=HANG)
    soon(items.close)
    assert makers == ["prefetch"]


def test_no_more_are_made_ahead_than_fit() -> None:
    made: list[int] = []
    items = Prefetcher(lambda number: made.append(number), 0, 2000)
    for taken in range(1, 2001):
        soon(items.next) if taken == 1 else items.next()
        assert len(made) <= taken + AHEAD + 1  # one more may wait for room
    soon(items.close)


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_an_error_is_raised_where_its_item_is_asked_for(kind: type[BaseException]) -> None:
    made: list[int] = []
    error = kind("broken")

    def make(number: int) -> int:
        made.append(number)
        if number == 6:
            raise error
        return number

    items = Prefetcher(make, 4, 100)
    assert [soon(items.next), soon(items.next)] == [4, 5]
    with pytest.raises(kind, match="broken") as raised:
        soon(items.next)
    assert raised.value is error
    soon(items.close)
    assert made == [4, 5, 6]


def test_closing_ends_a_thread_that_waits_for_room() -> None:
    full = threading.Event()

    def make(number: int) -> int:
        if number == AHEAD:  # those before it fill the queue
            full.set()
        return number

    items = Prefetcher(make, 0, 10**9)
    assert full.wait(timeout=HANG)
    soon(items.close)


def test_closing_ends_a_thread_whose_error_waits_for_room() -> None:
    failed = threading.Event()

    def make(number: int) -> int:
        if number == AHEAD:
            failed.set()
            raise ValueError("broken")
        return number

    items = Prefetcher(make, 0, 10**9)
    assert failed.wait(timeout=HANG)
    soon(items.close)


def test_closing_twice_or_after_the_end_does_no_harm() -> None:
    items = Prefetcher(lambda number: number, 0, 2)
    assert [soon(items.next), soon(items.next)] == [0, 1]
    soon(items.close)
    soon(items.close)


def test_past_the_last_item_and_after_an_error_nobody_waits() -> None:
    def make(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        return number

    short = Prefetcher(make, 0, 1)
    assert short.next() == 0
    for _ in range(2):
        with pytest.raises(IndexError, match="no more than 1"):
            short.next()
    failing = Prefetcher(make, 1, 5)
    assert failing.next() == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="two"):
            failing.next()
    short.close()
    failing.close()
