"""Pairs of running text: a sentence and one of those that follow it (SimCSE, Table 2: next sentence, next three).

A line of the text is a sentence. An empty line ends a document: nothing is paired over it, or over any other line that
is left out.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nearer.errors import InputError, SettingError
from nearer.storage.whole import write_whole
from nearer.text.reading import Reading


def iter_neighbours(reading: Reading[str], *, within: int = 1, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Each sentence with one that follows it in the same document, drawn from the next `within` of them."""
    if within < 1:
        raise SettingError(f"within: {within} is below 1.")
    random = np.random.default_rng(seed)
    waiting: deque[str] = deque()  # sentences one after the other, of which the first has not been paired yet
    before = None
    for line, sentence in reading.located():
        if before is not None and line != before + 1:
            yield from _paired(waiting, within, random, end=True)
            waiting.clear()
        waiting.append(sentence)
        yield from _paired(waiting, within, random, end=False)
        before = line
    yield from _paired(waiting, within, random, end=True)


def write_neighbours(reading: Reading[str], out: Path, *, within: int = 1, seed: int = 0) -> int:
    """Write the pairs as JSON lines; returns how many there are."""
    if out.exists():
        raise InputError(f"{out}: is there already; choose another name.", argument="out")
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        for first, second in iter_neighbours(reading, within=within, seed=seed):
            count += 1
            yield json.dumps({"sentence1": first, "sentence2": second}, ensure_ascii=False) + "\n"

    try:
        write_whole(out, lines())
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror or error}).") from None
    if not count:
        out.unlink()
        raise InputError(f"{reading.source}: no two lines follow each other, so there are no pairs.")
    return count


def _paired(waiting: deque[str], within: int, random: np.random.Generator, *, end: bool) -> Iterator[tuple[str, str]]:
    """Pairs of all sentences whose followers are known: all of them at the end of a document."""
    while len(waiting) > (1 if end else within):
        first = waiting.popleft()
        yield first, waiting[int(random.integers(0, min(within, len(waiting))))]
