"""Pairs of sentences with gold scores: what an STS task is made of."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from nearer.errors import InputError
from nearer.text import read_pairs
from nearer.text.faults import ReadReport
from nearer.text.records import Pair


@dataclass(frozen=True)
class PairTask:
    """A task: its pairs by subset. A task without subsets has one, named like the task itself."""

    name: str
    split: str
    layout: str
    subsets: dict[str, list[Pair]]
    report: ReadReport | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for subset, pairs in self.subsets.items():
            unscored = sum(pair.score is None for pair in pairs)
            if unscored:
                raise InputError(
                    f"{subset}: {unscored:,} of {len(pairs):,} pairs have no score; a task needs one for each."
                )
        if len(self.pairs) < 2:
            raise InputError(f"{self.name}: {len(self.pairs)} pairs, a correlation needs at least 2.")

    @property
    def pairs(self) -> list[Pair]:
        return [pair for subset in self.subsets.values() for pair in subset]

    def data_hash(self) -> str:
        """A digest of the sentences and scores in their order: equal hashes, equal data."""
        digest = hashlib.sha256()
        for subset, pairs in self.subsets.items():
            digest.update(json.dumps(subset).encode())
            for pair in pairs:
                digest.update(json.dumps(pair).encode())  # quoted: no sentence can look like two
        return digest.hexdigest()[:16]


def file_task(path: str | Path, *, columns: tuple[str, ...] | None = None, name: str | None = None) -> PairTask:
    """Any file with two sentences and a score is a task; lines that cannot be used are in its report."""
    reading = read_pairs(path, columns=columns)
    pairs = list(reading)
    unscored = sum(pair.score is None for pair in pairs)
    if unscored:
        raise InputError(
            f"{path}: {unscored:,} of {len(pairs):,} pairs have no score; a task needs a third column with one."
        )
    if len(pairs) < 2:
        raise InputError(f"{path}: {len(pairs)} usable pairs found, a correlation needs at least 2.\n{reading.report}")
    name = name or Path(path).name.lstrip(".").split(".")[0]
    return PairTask(name, "file", "file", {name: pairs}, reading.report)
