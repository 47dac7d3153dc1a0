"""Many things, some at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last with what is left."""
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
