"""Doing the next thing in a thread while the last one is in use."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def one_ahead(make: Callable[[Item], Made], items: Iterable[Item], stop: Callable[[], None]) -> Generator[Made]:
    """`make(item)` for each item, in order; while the caller uses one, the next is made in a thread.

    The items themselves are taken in the caller's thread, where a read that waits can be interrupted. What `make`
    raises is raised here. When the caller leaves early, `stop` is called: it should make `make` return soon.
    """
    remaining = iter(items)
    try:
        first = next(remaining)
    except StopIteration:
        return
    try:
        item = next(remaining)
    except StopIteration:  # only one: nothing to be ahead of
        yield make(first)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="nearer-ahead") as thread:
        try:
            coming = thread.submit(make, first)
            while True:
                made = coming.result()
                coming = thread.submit(make, item)
                yield made
                try:
                    item = next(remaining)
                except StopIteration:
                    break
            yield coming.result()
        except BaseException:
            stop()
            raise
