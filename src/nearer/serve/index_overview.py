"""What the service shows of a whole index: a seeded sample of its sentences, their map, the geometry of their vectors.

On the map sentences are near each other where they are near in meaning, in a few labelled groups. The geometry needs
positive pairs; they are made without labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from nearer.analysis.geometry import alignment, anisotropy, uniformity
from nearer.analysis.kmeans import fit_centres, nearest
from nearer.analysis.tsne import FEWEST, plane, tsne
from nearer.analysis.words import label_groups

if TYPE_CHECKING:
    from nearer.search import SearchIndex


MOST = 2000
SEED = 0


POSITIVES = "each sentence and itself with one word left out, chosen by a seeded draw; sentences of one word have none"


GROUPS = 8
SENTENCES_A_GROUP = 25  # so many at least, on the average
NEIGHBOURS = 10  # points by which another sentence is placed
TOGETHER = 0.02  # of the map's side: points so far apart are half together
SHOWN_CHARACTERS = 200

Coordinates = NDArray[np.float64]


@dataclass(frozen=True)
class IndexSample:
    """Distinct sentences in the order of the index; vectors: of length 1 (sentences, dimension).

    rows: where they stand in the index; lines, sources: where they come from, of files the name alone. of: sentences
    of the whole index.
    """

    rows: NDArray[np.int64]
    texts: list[str]
    lines: list[int]
    sources: list[str]
    vectors: NDArray[np.float32]
    of: int

    def __len__(self) -> int:
        return len(self.texts)


def sample_index(index: SearchIndex, most: int = MOST, seed: int = SEED) -> IndexSample:
    """Equal sentences are taken once: they would be one point, and no model tells them apart."""
    rows = index.rows
    count = len(rows)
    if count > most:
        rows = rows[np.sort(np.random.default_rng(seed).choice(count, most, replace=False))]
    first: dict[str, int] = {}
    for row in rows.tolist():
        first.setdefault(index.texts[row], row)
    kept = np.array(list(first.values()), dtype=np.int64)
    origins = [index.origin(row) for row in first.values()]
    return IndexSample(
        rows=kept,
        texts=list(first),
        lines=[line for line, _ in origins],
        sources=[PurePath(source).name for _, source in origins],
        vectors=np.ascontiguousarray(index.vectors_of(kept)),
        of=count,
    )


@dataclass(frozen=True)
class IndexGeometry:
    """alignment: None where no sentence has two words. pairs: positive ones; sentences: distinct ones."""

    alignment: float | None
    uniformity: float
    mean_cosine: float
    pairs: int
    sentences: int


def measure_geometry(sample: IndexSample, encode: Callable[[list[str]], NDArray[np.float32]]) -> IndexGeometry:
    """encode: vectors of sentences as the index' own were computed. At least two sentences are needed."""
    shortened = drop_a_word(sample.texts)
    paired = [number for number, text in enumerate(shortened) if text is not None]
    positives = encode([text for text in shortened if text is not None]) if paired else None
    return IndexGeometry(
        alignment=None if positives is None else alignment(sample.vectors[paired], positives),
        uniformity=uniformity(sample.vectors),
        mean_cosine=anisotropy(sample.vectors),
        pairs=len(paired),
        sentences=len(sample),
    )


def drop_a_word(texts: Sequence[str], seed: int = SEED) -> list[str | None]:
    """Each text less one of its words, which whitespace divides; None for a text of one word."""
    random = np.random.default_rng(seed)
    shortened: list[str | None] = []
    for text in texts:
        words = text.split()
        gone = int(random.integers(len(words))) if len(words) > 1 else None
        shortened.append(None if gone is None else " ".join(words[:gone] + words[gone + 1 :]))
    return shortened


@dataclass(frozen=True)
class SentenceMap:
    """coordinates: (sentences, 2) in [0, 1]; groups: of each sentence, by number; explained: variance, by PCA."""

    sample: IndexSample
    method: str
    explained: tuple[float, float] | None
    coordinates: Coordinates
    groups: list[int]
    labels: list[str]

    def place(self, vectors: NDArray[np.float32]) -> Coordinates:
        """Where unit vectors (sentences, dimension) lie: where most of those lie that each is nearest to."""
        return place_among(self.sample.vectors, self.coordinates, vectors)

    def place_rows(self, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> Coordinates:
        """The same of rows of the index, those on the map at their own points."""
        placed = self.place(vectors)
        at = np.minimum(np.searchsorted(self.sample.rows, rows), len(self.sample) - 1)
        shown = self.sample.rows[at] == rows
        placed[shown] = self.coordinates[at[shown]]
        return placed


def make_map(sample: IndexSample, check_ending: Callable[[], None] = lambda: None) -> SentenceMap:
    points = torch.from_numpy(sample.vectors).float()
    if len(sample) < FEWEST:
        flat, explained = plane(points)
        method, shares = "PCA", explained
    else:
        flat, method, shares = tsne(points, go_on=check_ending), "t-SNE", None
    groups = group_sentences(sample)
    count = max(groups) + 1
    return SentenceMap(
        sample=sample,
        method=method,
        explained=shares,
        coordinates=fit_into_square(flat.double().numpy()),
        groups=groups,
        labels=label_groups(sample.texts, groups, count),
    )


def group_sentences(sample: IndexSample) -> list[int]:
    """K-means around the mean, since all sentences of many models lie in one narrow cone. The largest group is 0."""
    wanted = max(1, min(GROUPS, len(sample) // SENTENCES_A_GROUP))
    points = torch.from_numpy(sample.vectors).float()
    points = normalize(points - points.mean(dim=0), dim=1)
    labels = nearest(points, fit_centres(points, wanted, np.random.default_rng(SEED)))[0].numpy()
    found, sizes = np.unique(labels, return_counts=True)
    number = {int(label): rank for rank, label in enumerate(found[np.argsort(-sizes, kind="stable")])}
    return [number[int(label)] for label in labels]


def place_among(known: NDArray[np.float32], coordinates: Coordinates, vectors: NDArray[np.float32]) -> Coordinates:
    """Where most of the nearest known points lie together: their mean, weighted by nearness in meaning and on the map.

    A plain mean of neighbours in two corners of the map is a spot between them where nothing belongs: of sentences
    left out of a map, it had 16 % of the ten nearest among the ten nearest on the map, this has 38 %, as many as the
    map's own. known, vectors: of length 1, (points, dimension) and (sentences, dimension); coordinates: (points, 2).
    """
    cosines = np.clip(vectors.astype(np.float64) @ known.astype(np.float64).T, -1, 1)  # (sentences, points)
    few = min(NEIGHBOURS, len(known))
    chosen = np.argsort(-cosines, axis=1, kind="stable")[:, :few]
    # float32 leaves equal vectors a little apart: so near, a sentence is on the point
    squared = np.maximum(2 - 2 * np.take_along_axis(cosines, chosen, axis=1), 1e-6)
    weights = squared**-2  # (sentences, few)
    around = coordinates[chosen]  # (sentences, few, 2)
    gaps = np.square(around[:, :, None] - around[:, None]).sum(axis=-1)
    together = 1 / (1 + gaps / TOGETHER**2)  # (sentences, few, few)
    middle = np.einsum("sij,sj->si", together, weights).argmax(axis=1)
    weights = weights * together[np.arange(len(middle)), middle]
    weights /= weights.sum(axis=1, keepdims=True)
    placed: Coordinates = np.einsum("sn,snd->sd", weights, around)
    return np.clip(placed, 0, 1)


def fit_into_square(coordinates: Coordinates) -> Coordinates:
    """Into [0, 1], both directions by one measure, the narrower one in the middle."""
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    side = float((high - low).max())
    if not side > 0:
        return np.full_like(coordinates, 0.5)
    square: Coordinates = np.clip(0.5 + (coordinates - (low + high) / 2) / side, 0, 1)
    return square
