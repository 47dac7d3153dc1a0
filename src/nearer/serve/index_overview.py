"""What the service shows of a whole index: a seeded sample of its sentences, their map, the geometry of their vectors.

On the map sentences are near each other where they are near in meaning, in a few labelled groups. The geometry needs
positive pairs; they are made without labels.

The map is t-SNE (van der Maaten and Hinton, 2008) with exact gradients, begun from PCA. It is our own, because a few
thousand points need nothing but matrix products, and no package has to be installed for a map. No step is random: equal
vectors give equal maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from nearer.analysis.geometry import alignment, anisotropy, uniformity
from nearer.analysis.kmeans import fit_centres, nearest
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


PERPLEXITY = 30.0  # about how many neighbours each point keeps near
ROUNDS, EXAGGERATED_ROUNDS = 500, 150
EXAGGERATION = 12.0  # of attraction, in the first rounds: clusters find together before they settle
FEWEST = 8  # fewer points have no neighbourhoods to keep: they are shown by PCA


def plane(points: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """The two directions of largest variance (PCA): coordinates (points, 2), and the share of the variance of each."""
    centred = (points - points.mean(dim=0)).double()
    values, directions = torch.linalg.eigh(centred.T @ centred)  # rising
    coordinates = centred @ directions[:, -2:].flip(1)
    # a direction's sign is arbitrary: the point farthest along it is on its positive side
    farthest = coordinates.abs().argmax(dim=0)
    signs = torch.where(coordinates[farthest, torch.arange(coordinates.shape[1])] < 0, -1.0, 1.0)
    coordinates = coordinates * signs
    if coordinates.shape[1] < 2:  # vectors of one dimension
        coordinates = torch.cat([coordinates, torch.zeros_like(coordinates)], dim=1)
    shares = values.clamp(min=0).flip(0) / values.clamp(min=0).sum().clamp(min=1e-300)
    return coordinates.float(), (float(shares[0]), float(shares[1:2].sum()))


def tsne(points: Tensor, *, rounds: int = ROUNDS, go_on: Callable[[], None] = lambda: None) -> Tensor:
    """Coordinates (points, 2) of unit vectors (points, dimension).

    go_on: called before each round, to end it by raising.
    """
    near = joint_neighbours(points)
    exaggerated = near * EXAGGERATION
    copies = _first_copies(points)
    coordinates = plane(points)[0][copies]
    coordinates = coordinates * (1e-4 / coordinates[:, 0].std().clamp(min=1e-12))
    step = max(len(points) / EXAGGERATION / 4, 50.0)
    velocity, gains = torch.zeros_like(coordinates), torch.ones_like(coordinates)
    for number in range(rounds):
        go_on()
        early = number < EXAGGERATED_ROUNDS
        # copies repel each other: the last digit of a matrix product, which differs from row to row, would part them
        slope = gradient(coordinates, exaggerated if early else near)[copies]
        # a step grows while it goes one way and shrinks where it swings (delta-bar-delta)
        swings = velocity * slope > 0
        gains = torch.where(swings, gains * 0.8, gains + 0.2).clamp(min=0.01)
        velocity = (0.5 if early else 0.8) * velocity - step * gains * slope
        coordinates = coordinates + velocity
        coordinates = coordinates - coordinates.mean(dim=0)
    return coordinates


def _first_copies(points: Tensor) -> Tensor:
    """For each point the number of the first one that is equal to it."""
    distinct, group = torch.unique(points, dim=0, return_inverse=True)
    numbers = torch.arange(len(points))
    return torch.full((len(distinct),), len(points)).scatter_reduce(0, group, numbers, "amin")[group]


def gradient(coordinates: Tensor, near: Tensor) -> Tensor:
    """Of KL(P ‖ Q) in the coordinates, Eq. 5: 4 Σ_j (p_ij − q_ij) (1 + ‖y_i − y_j‖²)⁻¹ (y_i − y_j)."""
    closeness = _closeness(coordinates)
    pulls = torch.add(near, closeness, alpha=-1 / float(closeness.sum())).mul_(closeness)  # (points, points)
    # (points, 3): the last column is the sum of the pulls
    towards = pulls @ torch.cat([coordinates, torch.ones(len(coordinates), 1)], dim=1)
    return 4 * (towards[:, 2:] * coordinates - towards[:, :2])


def divergence(coordinates: Tensor, near: Tensor) -> float:
    """KL(P ‖ Q): what is lost of the neighbourhoods."""
    closeness = _closeness(coordinates)
    shares = (closeness / closeness.sum()).clamp(min=1e-12)
    return float(torch.where(near > 0, near * (near.clamp(min=1e-30) / shares).log(), near).sum())


def joint_neighbours(points: Tensor, perplexity: float = PERPLEXITY) -> Tensor:
    """p_ij (points, points), Eq. 1 and section 3.1: symmetric, zero with itself, together 1."""
    count = len(points)
    distances = (2 - 2 * (points @ points.T)).clamp_(min=0)
    shares = neighbours(distances, min(perplexity, (count - 1) / 3))
    return (shares + shares.T) / (2 * count)


def neighbours(distances: Tensor, perplexity: float) -> Tensor:
    """p_j|i of squared distances (points, points): a Gaussian around each point, as wide as the perplexity asks."""
    count = len(distances)
    own = torch.eye(count, dtype=torch.bool)
    wanted = torch.log(torch.tensor(perplexity))
    low, high = torch.zeros(count, 1), torch.full((count, 1), torch.inf)
    narrowness = torch.ones(count, 1)
    shares = torch.empty_like(distances)
    # measured from the nearest, so that no row is nothing but underflow
    distances = distances - distances.masked_fill(own, torch.inf).min(dim=1, keepdim=True).values
    for _ in range(40):  # halvings
        shares = torch.exp(-narrowness * distances).masked_fill_(own, 0)
        total = shares.sum(dim=1, keepdim=True)
        shares /= total
        entropy = total.log() + narrowness * (shares * distances).sum(dim=1, keepdim=True)
        wide = entropy > wanted
        low, high = torch.where(wide, narrowness, low), torch.where(wide, high, narrowness)
        narrowness = torch.where(high.isinf(), narrowness * 2, (low + high) / 2)
    return shares


def _closeness(coordinates: Tensor) -> Tensor:
    """(1 + ‖y_i − y_j‖²)⁻¹ of each two, zero with itself."""
    lengths, ones = coordinates.square().sum(dim=1, keepdim=True), torch.ones(len(coordinates), 1)
    # in one product, since passes over (points, points) are what all this costs: 1 + ‖y_i‖² + ‖y_j‖² − 2 y_i·y_j
    raised = torch.cat([-2 * coordinates, lengths, ones], dim=1) @ torch.cat([coordinates, ones, lengths + 1], dim=1).T
    return raised.clamp_(min=1).reciprocal_().fill_diagonal_(0)
