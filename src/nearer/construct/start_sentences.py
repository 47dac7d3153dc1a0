"""Start sentences of ranking lists, spread over a corpus: k-means on an encoder's vectors, some of each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nearer.analysis.kmeans import Labels, cluster
from nearer.errors import InputError, SettingError
from nearer.storage.sealed import sealed_line, unsealed_line
from nearer.storage.whole import write_whole
from nearer.teachers import VectorStore
from nearer.text.reading import Reading, changed
from nearer.units import LARGEST_SEED


@dataclass(frozen=True)
class Start:
    """A sentence that a list begins with. index: among the corpus' records, from 0; cluster: None where the user
    chose the sentences."""

    number: int
    sentence: str
    index: int
    cluster: int | None


@dataclass(frozen=True)
class Starts:
    """All of them by number. short: clusters with fewer sentences than were asked for."""

    members: list[Start]
    short: int = 0


class StartSource(Protocol):
    """Where start sentences come from."""

    def identity(self) -> dict[str, Any]:
        """What the choice follows from: equal ones give equal starts."""
        ...

    def choose(self, *, progress: bool = False) -> Starts: ...


@dataclass(frozen=True)
class ClusteredStarts:
    """Drawn from the clusters of a corpus (§4.1: 1 000 clusters, 20 sentences of each)."""

    reading: Reading[str]
    store: VectorStore
    clusters: int
    per_cluster: int
    seed: int

    def __post_init__(self) -> None:
        for name, value in (("clusters", self.clusters), ("per_cluster", self.per_cluster)):
            if value < 1:
                raise SettingError(f"{name}: {value} is below 1.")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise SettingError(f"seed: {self.seed} is not from 0 to {LARGEST_SEED}.")

    def identity(self) -> dict[str, Any]:
        return {
            "corpus": self.reading.fingerprint(),
            "encoder": self.store.fingerprint,
            "clusters": self.clusters,
            "per_cluster": self.per_cluster,
        }

    def choose(self, *, progress: bool = False) -> Starts:
        return cluster_starts(
            self.reading,
            self.store,
            clusters=self.clusters,
            per_cluster=self.per_cluster,
            seed=self.seed,
            progress=progress,
        )


@dataclass(frozen=True)
class GivenStarts:
    """The sentences of a file as they are, in its order."""

    reading: Reading[str]

    def identity(self) -> dict[str, Any]:
        return {"starts": self.reading.fingerprint()}

    def choose(self, *, progress: bool = False) -> Starts:
        members = [Start(number, sentence, number, None) for number, sentence in enumerate(self.reading)]
        self.reading.report.check_kept()
        return Starts(members)


def cluster_starts(
    reading: Reading[str], store: VectorStore, *, clusters: int, per_cluster: int, seed: int, progress: bool = False
) -> Starts:
    """`per_cluster` sentences drawn from each of `clusters`, all different.

    They are numbered in turn, first one of each cluster, then the second of each: the first few are as varied as all.
    """
    rows = store.rows(reading, progress=progress)
    # equal sentences share a row: the first of each kind stands for it
    unique, indices = np.unique(rows, return_index=True)
    order = np.argsort(indices)
    unique, indices = unique[order], indices[order]
    if len(indices) < clusters:
        raise InputError(
            f"{reading.source}: has {len(indices):,} different sentences, fewer than the {clusters:,} clusters "
            "asked for; name a larger text or fewer clusters (--clusters)."
        )
    labels = cluster(store.vectors(), unique, clusters, seed)
    drawn = draw(labels, clusters, per_cluster, seed)
    chosen = [(int(indices[member]), int(labels[member])) for member in drawn]
    texts = _texts(reading, {index for index, _ in chosen})
    members = [Start(number, texts[index], index, label) for number, (index, label) in enumerate(chosen)]
    sizes = np.bincount(labels, minlength=clusters)
    return Starts(members, int((sizes < per_cluster).sum()))


def draw(labels: Labels, clusters: int, per_cluster: int, seed: int) -> list[int]:
    """Indices in `labels`: up to `per_cluster` of each cluster, in turn."""
    random = np.random.default_rng([seed, 1])  # another stream than the clustering's
    by_cluster = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels, minlength=clusters))[:-1])
    drawn = [random.permutation(members)[:per_cluster] for members in by_cluster]
    return [int(members[turn]) for turn in range(per_cluster) for members in drawn if turn < len(members)]


def write_starts(starts: Starts, path: Path) -> None:
    lines = [_as_line(start) for start in starts.members]
    try:
        write_whole(path, [sealed_line({"short": starts.short, "starts": len(lines)}), *lines])
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None


def read_starts(path: Path) -> Starts:
    """What `write_starts` wrote: a construction goes on with the starts that it began with."""
    try:
        head, *lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        rows: list[Mapping[str, Any]] = [unsealed_line(line) for line in lines]
        members = [Start(number, row["sentence"], row["start"], row["cluster"]) for number, row in enumerate(rows)]
        facts = unsealed_line(head)
        if facts.get("starts", len(members)) != len(members):
            raise ValueError("lines are missing")
        return Starts(members, int(facts["short"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: is damaged; remove it to have the start sentences chosen again.") from None


def _as_line(start: Start) -> str:
    row = {"sentence": start.sentence, "start": start.index, "cluster": start.cluster}
    return sealed_line(row)


def _texts(reading: Reading[str], wanted: set[int]) -> dict[int, str]:
    found = {index: sentence for index, sentence in enumerate(reading) if index in wanted}
    if len(found) < len(wanted):
        raise changed(reading)
    return found
